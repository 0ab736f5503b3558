/* `on_tick` of core/instants.py, and the rows of simulator/outputs/files.py, in C: the same numbers and texts. */
#define PY_SSIZE_T_CLEAN
#include "_fixed6.h"

static PyObject *on_tick(PyObject *module, PyObject *value) {
    (void)module;
    double x = PyFloat_AsDouble(value);
    if (x == -1.0 && PyErr_Occurred()) return NULL;
    double rounded = rounded_to_tick(x);
    return rounded == -1.0 && PyErr_Occurred() ? NULL : PyFloat_FromDouble(rounded);
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

typedef struct {
    char *bytes; /* `local`, or allocated memory if that is too small */
    Py_ssize_t n;
    Py_ssize_t capacity;
    char local[1024];
} Row;

static int write_bytes(Row *row, const char *bytes, Py_ssize_t n) {
    if (n > row->capacity - row->n) {
        Py_ssize_t capacity = 2 * row->capacity + n;
        char *larger = PyMem_Malloc((size_t)capacity);
        if (larger == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(larger, row->bytes, (size_t)row->n);
        if (row->bytes != row->local) PyMem_Free(row->bytes);
        row->bytes = larger;
        row->capacity = capacity;
    }
    memcpy(row->bytes + row->n, bytes, (size_t)n);
    row->n += n;
    return 0;
}

static int write_text(Row *row, PyObject *text) {
    Py_ssize_t n;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &n);
    return bytes == NULL ? -1 : write_bytes(row, bytes, n);
}

static int write_float(Row *row, double x) {
    double n = millionths(x);
    if (n < 0) {
        char *text = PyOS_double_to_string(x, 'f', 6, 0, NULL);
        if (text == NULL) return -1;
        int failed = write_bytes(row, text, (Py_ssize_t)strlen(text));
        PyMem_Free(text);
        return failed;
    }
    char place[32], *end = place + sizeof(place), *begin = end;
    unsigned long long left = (unsigned long long)n;
    for (int i = 0; i < 6; i++, left /= 10) *--begin = (char)('0' + left % 10);
    *--begin = '.';
    do {
        *--begin = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (signbit(x)) *--begin = '-';
    return write_bytes(row, begin, end - begin);
}

static int write_other(Row *row, PyObject *value) {
    PyObject *text = PyObject_Str(value);
    if (text == NULL) return -1;
    int failed = write_text(row, text);
    Py_DECREF(text);
    return failed;
}

static PyObject *row(PyObject *module, PyObject *const *values, Py_ssize_t n) {
    (void)module;
    Row line = {.n = 0, .capacity = sizeof(line.local)};
    line.bytes = line.local;
    int failed = 0;
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        PyObject *value = values[i];
        failed = i && write_bytes(&line, ",", 1);
        if (failed) break;
        if (PyFloat_CheckExact(value)) {
            failed = write_float(&line, PyFloat_AS_DOUBLE(value));
        } else {
            failed = PyUnicode_Check(value) ? write_text(&line, value) : write_other(&line, value);
        }
    }
    PyObject *text = NULL;
    if (!failed && !write_bytes(&line, "\n", 1)) text = PyUnicode_DecodeUTF8(line.bytes, line.n, NULL);
    if (line.bytes != line.local) PyMem_Free(line.bytes);
    return text;
}

static PyMethodDef functions[] = {
    {"on_tick", on_tick, METH_O, "See pybatsched.core.instants.on_tick."},
    {"row", (PyCFunction)(void (*)(void))row, METH_FASTCALL, "See pybatsched.simulator.rows.row."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "pybatsched.core._fixed6",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__fixed6(void) { return PyModule_Create(&definition); }
