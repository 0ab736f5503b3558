/* Numbers with six decimals, as Batsim writes them: instants.on_tick and simulator/rows.py in C, the same to the last bit.
 *
 * CPython rounds and prints with arithmetic on numbers of any length, because the nearest decimal of a double may hang on
 * its last bit. It seldom does: x * 1e6 is wrong by less than a relative 2^-53, so wherever it is not that close to the
 * middle between two integers, the nearer of these is the answer. The rest is left to CPython.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <string.h>

#define ENOUGH 1e9 /* below that, a number in millionths is an exact double, and its error far below a half */

/* Give x in whole millionths, without its sign; -1 if that hangs on the last bit, or x is too large or no number. */
static double millionths(double x) {
    double y = fabs(x) * 1e6;
    if (!(y < ENOUGH * 1e6)) return -1;
    double whole = floor(y), rest = y - whole; /* exact */
    if (fabs(rest - 0.5) <= y * 2.3e-16) return -1;
    return rest > 0.5 ? whole + 1 : whole;
}

static PyObject *on_tick(PyObject *module, PyObject *value) {
    (void)module;
    double x = PyFloat_AsDouble(value);
    if (x == -1.0 && PyErr_Occurred()) return NULL;
    double n = millionths(x);
    if (n >= 0) return PyFloat_FromDouble(copysign(n / 1e6, x)); /* the double next to n / 1e6, as IEEE 754 divides */
    if (PyFloat_CheckExact(value)) return PyObject_CallMethod(value, "__round__", "i", 6);
    PyObject *as_float = PyFloat_FromDouble(x);
    if (as_float == NULL) return NULL;
    PyObject *rounded = PyObject_CallMethod(as_float, "__round__", "i", 6);
    Py_DECREF(as_float);
    return rounded;
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

typedef struct {
    char *bytes; /* `local`, or memory of its own once that is too small */
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
    .m_name = "pybatsched.core._six",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__six(void) { return PyModule_Create(&definition); }
