/* Sorted runs of processors in flat arrays: PlainRuns of intervals.py in C, the same answers and several times as fast.
 *
 * intervals.py is the reference: its docstrings say what each method does, and tests compare both. Bounds are 64-bit
 * integers in the object itself, so that a set is usually one piece of memory. Every operation is one pass over the
 * bounds.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>

typedef long long Bound;

typedef struct {
    PyObject_VAR_HEAD /* ob_size is the number of bounds that have room */
    Py_ssize_t k;     /* bounds: a0, b0, a1, b1, ... */
    Bound n;          /* members */
    PyObject *text;   /* as Batsim writes it; NULL until it is asked for */
    Bound *bounds;    /* `room`, or allocated memory if a subclass has called __init__ */
    int is_complete;  /* has all its bounds, which do not change any more */
    Bound room[1];
} Runs;

static PyTypeObject RunsType;

#define IS_RUNS(object) PyObject_TypeCheck(object, &RunsType)

/* --- making ------------------------------------------------------------------------------------------------------ */

static void complete(Runs *self, const Bound *bounds, Py_ssize_t k) {
    if (k) memcpy(self->bounds, bounds, (size_t)k * sizeof(Bound));
    self->k = k;
    self->n = 0;
    for (Py_ssize_t i = 0; i < k; i += 2) self->n += bounds[i + 1] - bounds[i];
    self->is_complete = 1;
}

static PyObject *make(PyTypeObject *type, const Bound *bounds, Py_ssize_t k) {
    Runs *self = (Runs *)type->tp_alloc(type, k);
    if (self == NULL) return NULL;
    self->bounds = self->room;
    complete(self, bounds, k);
    return (PyObject *)self;
}

static void runs_dealloc(Runs *self) {
    Py_XDECREF(self->text);
    if (self->bounds != self->room) PyMem_Free(self->bounds);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Room for the bounds of a result: on the stack if there are few. */
typedef struct {
    Bound *bounds;
    Py_ssize_t k;
    Bound local[64];
} Room;

static int begin(Room *room, Py_ssize_t at_most) {
    room->k = 0;
    room->bounds = room->local;
    if (at_most > 64) {
        room->bounds = PyMem_Malloc((size_t)at_most * sizeof(Bound));
        if (room->bounds == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

static PyObject *finish(Room *room, PyTypeObject *type) {
    PyObject *made = make(type, room->bounds, room->k);
    if (room->bounds != room->local) PyMem_Free(room->bounds);
    return made;
}

static void drop(Room *room) {
    if (room->bounds != room->local) PyMem_Free(room->bounds);
}

static int read_bound(PyObject *value, Bound *bound) {
    *bound = PyLong_AsLongLong(value);
    return *bound == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Return the integer as an int, a new reference. NotIntegerError with the value if it is not one; a bool is not. */
static PyObject *integer(PyObject *value) {
    if (PyLong_CheckExact(value)) return Py_NewRef(value);
    if (!PyBool_Check(value) && PyIndex_Check(value)) {
        PyObject *found = PyNumber_Index(value);
        if (found != NULL || !PyErr_ExceptionMatches(PyExc_TypeError)) return found;
        PyErr_Clear();
    }
    PyObject *errors = PyImport_ImportModule("pybatsched.errors");
    PyObject *error = errors == NULL ? NULL : PyObject_GetAttrString(errors, "NotIntegerError");
    PyObject *text = error == NULL ? NULL : PyObject_Repr(value);
    PyObject *start = text == NULL ? NULL : PyUnicode_Substring(text, 0, 80);
    if (start != NULL) PyErr_Format(error, "a processor id, or a number of processors, is an integer, not %U", start);
    Py_XDECREF(start);
    Py_XDECREF(text);
    Py_XDECREF(error);
    Py_XDECREF(errors);
    return NULL;
}

/* Runs(members=()): single processors, in any order, possibly several times. Writes their bounds into a new room. */
static int read_members(Room *room, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"members", NULL};
    PyObject *members = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &members)) return -1;
    if (members == NULL) return begin(room, 0);
    PyObject *list = PySequence_List(members);
    if (list == NULL) return -1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        if (PyLong_CheckExact(PyList_GET_ITEM(list, i))) continue;
        PyObject *member = integer(PyList_GET_ITEM(list, i));
        if (member == NULL || PyList_SetItem(list, i, member) < 0) {
            Py_DECREF(list);
            return -1;
        }
    }
    if (PyList_Sort(list) < 0 || begin(room, 2 * PyList_GET_SIZE(list)) < 0) {
        Py_DECREF(list);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        Bound at;
        if (read_bound(PyList_GET_ITEM(list, i), &at) < 0) goto failed;
        if (at < 0) {
            PyErr_Format(PyExc_ValueError, "a processor id is never negative: %lld", at);
            goto failed;
        }
        if (room->k && room->bounds[room->k - 1] > at) continue; /* a repeated member */
        if (room->k && room->bounds[room->k - 1] == at) {
            room->bounds[room->k - 1] = at + 1;
        } else {
            room->bounds[room->k++] = at;
            room->bounds[room->k++] = at + 1;
        }
    }
    Py_DECREF(list);
    return 0;
failed:
    drop(room);
    Py_DECREF(list);
    return -1;
}

static int runs_init(PyObject *object, PyObject *args, PyObject *kwargs);

static PyObject *runs_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    if (type->tp_init != runs_init) { /* a subclass with its own __init__, which calls ours with other arguments */
        Runs *self = (Runs *)make(type, NULL, 0);
        if (self != NULL) self->is_complete = 0;
        return (PyObject *)self;
    }
    Room room;
    return read_members(&room, args, kwargs) < 0 ? NULL : finish(&room, type);
}

static int runs_init(PyObject *object, PyObject *args, PyObject *kwargs) {
    Runs *self = (Runs *)object;
    Room room;
    if (self->is_complete) return 0; /* by runs_new, from the same arguments */
    if (read_members(&room, args, kwargs) < 0) return -1;
    Bound *bounds = PyMem_Malloc((size_t)room.k * sizeof(Bound));
    if (bounds == NULL) {
        drop(&room);
        PyErr_NoMemory();
        return -1;
    }
    if (self->bounds != self->room) PyMem_Free(self->bounds); /* reading the members may have called this before */
    self->bounds = bounds;
    complete(self, room.bounds, room.k);
    drop(&room);
    Py_CLEAR(self->text);
    return 0;
}

static PyObject *runs_of(PyObject *type, PyObject *bounds) {
    if (!PyList_Check(bounds)) {
        PyErr_SetString(PyExc_TypeError, "bounds come in a list");
        return NULL;
    }
    Room room;
    Py_ssize_t k = PyList_GET_SIZE(bounds);
    if (k % 2) {
        PyErr_SetString(PyExc_ValueError, "bounds come in pairs");
        return NULL;
    }
    if (begin(&room, k) < 0) return NULL;
    for (; room.k < k; room.k++) {
        PyObject *bound = Py_NewRef(PyList_GET_ITEM(bounds, room.k));
        int failed = read_bound(bound, &room.bounds[room.k]) < 0;
        Py_DECREF(bound);
        if (!failed && PyList_GET_SIZE(bounds) != k) { /* reading a number of another type may run any code */
            PyErr_SetString(PyExc_ValueError, "the bounds have changed while they were read");
            failed = 1;
        }
        if (failed) {
            drop(&room);
            return NULL;
        }
    }
    return finish(&room, (PyTypeObject *)type);
}

/* --- combining --------------------------------------------------------------------------------------------------- */

/* Add a run after all others, or extend the last one if it touches it. */
static void add(Room *room, Bound start, Bound stop) {
    if (room->k && start <= room->bounds[room->k - 1]) {
        if (stop > room->bounds[room->k - 1]) room->bounds[room->k - 1] = stop;
    } else {
        room->bounds[room->k++] = start;
        room->bounds[room->k++] = stop;
    }
}

static PyObject *runs_or(PyObject *left, PyObject *right) {
    if (!IS_RUNS(left) || !IS_RUNS(right)) Py_RETURN_NOTIMPLEMENTED;
    Runs *a = (Runs *)left, *b = (Runs *)right;
    Room room;
    if (begin(&room, a->k + b->k) < 0) return NULL;
    Py_ssize_t i = 0, j = 0;
    while (i < a->k || j < b->k) {
        if (j >= b->k || (i < a->k && a->bounds[i] <= b->bounds[j])) {
            add(&room, a->bounds[i], a->bounds[i + 1]);
            i += 2;
        } else {
            add(&room, b->bounds[j], b->bounds[j + 1]);
            j += 2;
        }
    }
    return finish(&room, Py_TYPE(left));
}

static PyObject *runs_sub(PyObject *left, PyObject *right) {
    if (!IS_RUNS(left) || !IS_RUNS(right)) Py_RETURN_NOTIMPLEMENTED;
    Runs *a = (Runs *)left, *b = (Runs *)right;
    Room room;
    if (begin(&room, a->k + b->k) < 0) return NULL;
    Py_ssize_t j = 0;
    for (Py_ssize_t i = 0; i < a->k; i += 2) {
        Bound start = a->bounds[i], stop = a->bounds[i + 1];
        while (j < b->k && b->bounds[j + 1] <= start) j += 2;
        for (; j < b->k && b->bounds[j] < stop; j += 2) {
            if (b->bounds[j] > start) add(&room, start, b->bounds[j]);
            start = b->bounds[j + 1];
            if (start >= stop) break; /* this run may extend into our next one */
        }
        if (start < stop) add(&room, start, stop);
    }
    return finish(&room, Py_TYPE(left));
}

static PyObject *runs_and(PyObject *left, PyObject *right) {
    if (!IS_RUNS(left) || !IS_RUNS(right)) Py_RETURN_NOTIMPLEMENTED;
    Runs *a = (Runs *)left, *b = (Runs *)right;
    Room room;
    if (begin(&room, a->k + b->k) < 0) return NULL;
    Py_ssize_t i = 0, j = 0;
    while (i < a->k && j < b->k) {
        Bound start = a->bounds[i] > b->bounds[j] ? a->bounds[i] : b->bounds[j];
        Bound stop = a->bounds[i + 1] < b->bounds[j + 1] ? a->bounds[i + 1] : b->bounds[j + 1];
        if (start < stop) add(&room, start, stop);
        if (a->bounds[i + 1] < b->bounds[j + 1]) i += 2;
        else j += 2;
    }
    return finish(&room, Py_TYPE(left));
}

static PyObject *runs_first(PyObject *object, PyObject *value) {
    Runs *self = (Runs *)object;
    Bound n;
    PyObject *number = integer(value);
    int failed = number == NULL || read_bound(number, &n) < 0;
    Py_XDECREF(number);
    if (failed) return NULL;
    if (n <= 0) return make(Py_TYPE(self), NULL, 0);
    Bound left = n;
    for (Py_ssize_t i = 0; i < self->k; i += 2) {
        Bound size = self->bounds[i + 1] - self->bounds[i];
        if (size >= left) {
            Runs *made = (Runs *)make(Py_TYPE(self), self->bounds, i + 2);
            if (made == NULL) return NULL;
            made->bounds[i + 1] = self->bounds[i] + left;
            made->n = n;
            return (PyObject *)made;
        }
        left -= size;
    }
    return PyErr_Format(PyExc_ValueError, "asked for the first %lld of %lld processors", n, self->n);
}

/* --- asking ------------------------------------------------------------------------------------------------------ */

static Runs *other_runs(PyObject *value) {
    if (IS_RUNS(value)) return (Runs *)value;
    PyErr_Format(PyExc_TypeError, "expected an IntervalSet, got %.100s", Py_TYPE(value)->tp_name);
    return NULL;
}

static PyObject *runs_issubset(PyObject *object, PyObject *value) {
    Runs *self = (Runs *)object, *other = other_runs(value);
    if (other == NULL) return NULL;
    Py_ssize_t j = 0;
    for (Py_ssize_t i = 0; i < self->k; i += 2) {
        while (j < other->k && other->bounds[j + 1] <= self->bounds[i]) j += 2;
        if (j >= other->k || self->bounds[i] < other->bounds[j] || self->bounds[i + 1] > other->bounds[j + 1])
            Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

static PyObject *runs_isdisjoint(PyObject *object, PyObject *value) {
    Runs *self = (Runs *)object, *other = other_runs(value);
    if (other == NULL) return NULL;
    Py_ssize_t i = 0, j = 0;
    while (i < self->k && j < other->k) {
        if (self->bounds[i + 1] <= other->bounds[j]) i += 2;
        else if (other->bounds[j + 1] <= self->bounds[i]) j += 2;
        else Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

static int runs_contains(PyObject *object, PyObject *value) {
    Runs *self = (Runs *)object;
    Bound at;
    if (read_bound(value, &at) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return -1;
        PyErr_Clear(); /* larger than any processor */
        return 0;
    }
    Py_ssize_t low = 0, high = self->k; /* the number of bounds up to it is between these */
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if (self->bounds[middle] <= at) low = middle + 1;
        else high = middle;
    }
    return low & 1;
}

static Py_ssize_t runs_length(PyObject *self) { return (Py_ssize_t)((Runs *)self)->n; }

static int runs_bool(PyObject *self) { return ((Runs *)self)->k > 0; }

static PyObject *runs_compare(PyObject *left, PyObject *right, int wanted) {
    if (!IS_RUNS(right) || (wanted != Py_EQ && wanted != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    Runs *a = (Runs *)left, *b = (Runs *)right;
    int equal = a->k == b->k && !memcmp(a->bounds, b->bounds, (size_t)a->k * sizeof(Bound));
    return PyBool_FromLong(equal == (wanted == Py_EQ));
}

static PyObject *lowest(PyObject *object, void *unused) {
    (void)unused;
    Runs *self = (Runs *)object;
    return PyLong_FromLongLong(self->k ? self->bounds[0] : -1);
}

static PyObject *highest(PyObject *object, void *unused) {
    (void)unused;
    Runs *self = (Runs *)object;
    return PyLong_FromLongLong(self->k ? self->bounds[self->k - 1] - 1 : -1);
}

/* --- text -------------------------------------------------------------------------------------------------------- */

static PyObject *as_tuple(Runs *self) {
    PyObject *all = PyTuple_New(self->k);
    for (Py_ssize_t i = 0; all != NULL && i < self->k; i++) {
        PyObject *bound = PyLong_FromLongLong(self->bounds[i]);
        if (bound == NULL) Py_CLEAR(all);
        else PyTuple_SET_ITEM(all, i, bound);
    }
    return all;
}

static Py_hash_t runs_hash(PyObject *self) {
    PyObject *all = as_tuple((Runs *)self);
    if (all == NULL) return -1;
    Py_hash_t hash = PyObject_Hash(all);
    Py_DECREF(all);
    return hash;
}

static PyObject *runs_intervals(PyObject *object, PyObject *unused) {
    (void)unused;
    Runs *self = (Runs *)object;
    PyObject *pairs = PyTuple_New(self->k / 2);
    for (Py_ssize_t i = 0; pairs != NULL && i < self->k; i += 2) {
        PyObject *pair = Py_BuildValue("(LL)", self->bounds[i], self->bounds[i + 1]);
        if (pair == NULL) Py_CLEAR(pairs);
        else PyTuple_SET_ITEM(pairs, i / 2, pair);
    }
    if (pairs == NULL) return NULL;
    PyObject *found = PyObject_GetIter(pairs);
    Py_DECREF(pairs);
    return found;
}

/* Write a number that is not negative. Return the end of its text. */
static char *write_number(char *at, Bound n) {
    char digits[24];
    int k = 0;
    do {
        digits[k++] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    while (k) *at++ = digits[--k];
    return at;
}

static PyObject *runs_str(PyObject *object) {
    Runs *self = (Runs *)object;
    if (self->text == NULL) {
        char local[512] = "", *place = local;
        size_t room = (size_t)self->k * 21 + 1; /* for each bound a number and a character */
        if (room > sizeof(local) && (place = PyMem_Malloc(room)) == NULL) return PyErr_NoMemory();
        char *at = place;
        for (Py_ssize_t i = 0; i < self->k; i += 2) {
            Bound start = self->bounds[i], last = self->bounds[i + 1] - 1;
            if (i) *at++ = ' ';
            at = write_number(at, start);
            if (last > start) {
                *at++ = '-';
                at = write_number(at, last);
            }
        }
        self->text = PyUnicode_FromStringAndSize(place, at - place);
        if (place != local) PyMem_Free(place);
        if (self->text == NULL) return NULL;
    }
    return Py_NewRef(self->text);
}

static PyMethodDef methods[] = {
    {"_of", runs_of, METH_O | METH_CLASS, NULL},
    {"first", runs_first, METH_O, NULL},
    {"issubset", runs_issubset, METH_O, NULL},
    {"isdisjoint", runs_isdisjoint, METH_O, NULL},
    {"intervals", runs_intervals, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"lowest", lowest, NULL, NULL, NULL},
    {"highest", highest, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyNumberMethods as_number = {
    .nb_or = runs_or,
    .nb_and = runs_and,
    .nb_subtract = runs_sub,
    .nb_bool = runs_bool,
};

static PySequenceMethods as_sequence = {
    .sq_length = runs_length,
    .sq_contains = runs_contains,
};

static PyTypeObject RunsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pybatsched.core._runs.Runs",
    .tp_basicsize = offsetof(Runs, room),
    .tp_itemsize = sizeof(Bound),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = runs_new,
    .tp_init = runs_init,
    .tp_dealloc = (destructor)runs_dealloc,
    .tp_as_number = &as_number,
    .tp_as_sequence = &as_sequence,
    .tp_richcompare = runs_compare,
    .tp_hash = runs_hash,
    .tp_str = runs_str,
    .tp_methods = methods,
    .tp_getset = attributes,
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "pybatsched.core._runs",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__runs(void) {
    if (PyType_Ready(&RunsType) < 0) return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddObjectRef(module, "Runs", (PyObject *)&RunsType) < 0) Py_CLEAR(module);
    return module;
}
