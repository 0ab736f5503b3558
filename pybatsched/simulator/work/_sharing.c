/* The classes of sharing.py in C: the same rates to the last bit, many times as fast.
 *
 * That module is the reference: its docstrings say what each class and method does, and tests compare both. A use is
 * one need of one user; the uses of a resource are a linked list in the order in which they were added. Three things
 * differ for wrong callers: needs are read once, adding a user twice is an error, and a user that nobody refers to any
 * more leaves its resources. This file must be compiled without fused multiplications and additions
 * (-ffp-contract=off), which round differently.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <structmember.h>

#define USED_UP 1e-5 /* these two as in sharing.py, as a test checks */
#define MAX_ROUNDS 20000000
#define SIGNAL_USES 4194304 /* so many uses are computed between two checks for signals such as Ctrl-C */
#define MAX_KINDS 8         /* of resources of one user that are known to be alike */

typedef struct Use Use;
typedef struct User User;

typedef struct {
    PyObject_HEAD
    double capacity;
    double free;
    double share;
    char is_fatpipe;
    Use *oldest;
    Use *newest;
    Py_ssize_t n_uses;
    unsigned long long visited; /* number of the last solution that it was a part of */
} Resource;

struct Use {
    Use *older; /* neighbours in the list of the resource */
    Use *newer;
    User *user;
    Resource *resource; /* a strong reference */
    double weight;
    bool is_distinct; /* false if another use of this user is like it, and has the same share */
};

struct User {
    PyObject_HEAD
    PyObject *needs;
    double bound;
    double rate;
    double gain;
    Use *uses;
    Py_ssize_t n_uses;
    bool is_added;
    bool knows_distinct;
    bool is_growing;
    unsigned long long visited;
};

typedef struct {
    PyObject **items; /* strong references */
    Py_ssize_t n;
    Py_ssize_t capacity;
} Objects;

typedef struct {
    PyObject_HEAD
    Objects changed; /* resources */
} Sharing;

static PyTypeObject ResourceType;
static PyTypeObject UserType;

/* --- lists of objects -------------------------------------------------------------------------------------------- */

static int push(Objects *list, void *object) {
    if (list->n == list->capacity) {
        Py_ssize_t capacity = list->capacity ? 2 * list->capacity : 32;
        PyObject **larger = PyMem_Realloc(list->items, (size_t)capacity * sizeof(PyObject *));
        if (larger == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        list->items = larger;
        list->capacity = capacity;
    }
    list->items[list->n++] = Py_NewRef((PyObject *)object);
    return 0;
}

static void clear(Objects *list) {
    for (Py_ssize_t i = 0; i < list->n; i++) Py_DECREF(list->items[i]);
    PyMem_Free(list->items);
    *list = (Objects){NULL, 0, 0};
}

/* --- resources --------------------------------------------------------------------------------------------------- */

static PyObject *resource_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"capacity", "is_fatpipe", NULL};
    double capacity;
    int is_fatpipe = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "d|$p", names, &capacity, &is_fatpipe)) return NULL;
    Resource *self = (Resource *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->capacity = capacity;
    self->is_fatpipe = (char)is_fatpipe;
    return (PyObject *)self;
}

static PyObject *resource_load(Resource *self, PyObject *ignored) {
    (void)ignored;
    double load = 0.0;
    for (const Use *use = self->newest; use != NULL; use = use->older) {
        double used = use->weight * use->user->rate;
        if (!self->is_fatpipe)
            load += used;
        else if (used > load)
            load = used;
    }
    return PyFloat_FromDouble(load);
}

static PyMethodDef resource_methods[] = {
    {"load", (PyCFunction)resource_load, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef resource_members[] = {
    {"capacity", T_DOUBLE, offsetof(Resource, capacity), 0, NULL},
    {"is_fatpipe", T_BOOL, offsetof(Resource, is_fatpipe), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject ResourceType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pybatsched.simulator.work._sharing.Resource",
    .tp_doc = "A host or a link; see pybatsched.simulator.work.sharing.",
    .tp_basicsize = sizeof(Resource),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = resource_new,
    .tp_methods = resource_methods,
    .tp_members = resource_members,
};

/* --- users ------------------------------------------------------------------------------------------------------- */

static void unlink_uses(User *self) {
    for (Py_ssize_t i = 0; i < self->n_uses; i++) {
        Use *use = &self->uses[i];
        Resource *resource = use->resource;
        *(use->older ? &use->older->newer : &resource->oldest) = use->newer;
        *(use->newer ? &use->newer->older : &resource->newest) = use->older;
        resource->n_uses--;
        if (resource->n_uses == 1) resource->oldest->user->knows_distinct = false;
    }
    self->is_added = false;
}

static void user_dealloc(User *self) {
    if (self->is_added) unlink_uses(self);
    for (Py_ssize_t i = 0; i < self->n_uses; i++) Py_DECREF(self->uses[i].resource);
    PyMem_Free(self->uses);
    Py_XDECREF(self->needs);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Read the needs, pairs of a resource and a weight, into the uses of a user. */
static int read_needs(User *self, PyObject *needs) {
    PyObject *pairs = PySequence_Tuple(needs);
    if (pairs == NULL) return -1;
    Py_ssize_t n = PyTuple_GET_SIZE(pairs);
    self->uses = n ? PyMem_Calloc((size_t)n, sizeof(Use)) : NULL;
    if (n && self->uses == NULL) {
        Py_DECREF(pairs);
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PyTuple_GET_ITEM(pairs, i), *resource;
        double weight;
        if (!PyTuple_Check(pair)) {
            PyErr_Format(PyExc_TypeError, "expected pairs of a resource and a weight, found %R", pair);
            Py_DECREF(pairs);
            return -1;
        }
        if (!PyArg_ParseTuple(pair, "O!d", &ResourceType, &resource, &weight)) {
            Py_DECREF(pairs);
            return -1;
        }
        self->uses[i] = (Use){.user = self, .resource = (Resource *)Py_NewRef(resource), .weight = weight};
        self->n_uses = i + 1;
    }
    Py_DECREF(pairs);
    return 0;
}

static PyObject *user_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"needs", "bound", NULL};
    PyObject *needs;
    double bound = INFINITY;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|d", names, &needs, &bound)) return NULL;
    User *self = (User *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->bound = bound;
    self->needs = Py_NewRef(needs);
    if (read_needs(self, needs) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* Find out which uses are distinct; see `User.distinct_needs` of sharing.py. Here only a few kinds are compared. */
static void find_distinct(User *self) {
    const Use *kinds[MAX_KINDS];
    int n_kinds = 0;
    for (Py_ssize_t i = 0; i < self->n_uses; i++) {
        Use *use = &self->uses[i];
        const Resource *own = use->resource;
        use->is_distinct = true;
        if (own->n_uses != 1) continue;
        for (int k = n_kinds - 1; k >= 0 && use->is_distinct; k--) {
            const Resource *other = kinds[k]->resource;
            use->is_distinct = !(kinds[k]->weight == use->weight && other->capacity == own->capacity &&
                                 other->is_fatpipe == own->is_fatpipe);
        }
        if (use->is_distinct && n_kinds < MAX_KINDS) kinds[n_kinds++] = use;
    }
    self->knows_distinct = true;
}

static PyMemberDef user_members[] = {
    {"needs", T_OBJECT_EX, offsetof(User, needs), READONLY, NULL},
    {"bound", T_DOUBLE, offsetof(User, bound), 0, NULL},
    {"rate", T_DOUBLE, offsetof(User, rate), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject UserType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pybatsched.simulator.work._sharing.User",
    .tp_doc = "A task; see pybatsched.simulator.work.sharing.",
    .tp_basicsize = sizeof(User),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = user_new,
    .tp_dealloc = (destructor)user_dealloc,
    .tp_members = user_members,
};

/* --- the solver -------------------------------------------------------------------------------------------------- */

/* A part of the users and resources that is solved: those that changes affect. `n_growing` users come first. */
typedef struct {
    Objects users;
    Objects resources;
    Py_ssize_t n_growing;
    Py_ssize_t n_open;
} Part;

#define USER(part, i) ((User *)(part)->users.items[i])
#define RESOURCE(part, i) ((Resource *)(part)->resources.items[i])

static void swap(Objects *list, Py_ssize_t i, Py_ssize_t k) {
    PyObject *item = list->items[i];
    list->items[i] = list->items[k];
    list->items[k] = item;
}

/* Add a resource to a part, unless it is there. */
static int visit(Part *part, Resource *resource, unsigned long long number) {
    if (resource->visited == number) return 0;
    resource->visited = number;
    return push(&part->resources, resource);
}

/* Find all users and resources that changed resources affect. */
static int find_affected(Part *part, const Objects *changed) {
    static unsigned long long number = 0; /* of this solution */
    number++;
    for (Py_ssize_t i = 0; i < changed->n; i++)
        if (visit(part, (Resource *)changed->items[i], number) < 0) return -1;
    for (Py_ssize_t i = 0; i < part->resources.n; i++) {
        for (Use *use = RESOURCE(part, i)->oldest; use != NULL; use = use->newer) {
            User *user = use->user;
            if (user->visited == number) continue;
            user->visited = number;
            if (push(&part->users, user) < 0) return -1;
            if (!user->knows_distinct) find_distinct(user);
            for (Py_ssize_t k = 0; k < user->n_uses; k++)
                if (user->uses[k].is_distinct && visit(part, user->uses[k].resource, number) < 0) return -1;
        }
    }
    return 0;
}

/* Compute the share of each growing user of a resource; return whether there is one. */
static bool offer(Resource *resource) {
    Py_ssize_t n_growing = 0;
    for (const Use *use = resource->oldest; use != NULL; use = use->newer) n_growing += use->user->is_growing;
    if (n_growing) resource->share = resource->is_fatpipe ? resource->free : resource->free / (double)n_growing;
    return n_growing > 0;
}

static void grow(User *user) {
    double gain = INFINITY;
    for (Py_ssize_t i = 0; i < user->n_uses; i++) {
        const Use *use = &user->uses[i];
        if (!use->is_distinct) continue;
        double offered = use->resource->share / use->weight;
        if (offered < gain) gain = offered;
    }
    double left = user->bound - user->rate;
    if (left < gain) gain = left;
    user->gain = gain;
    user->rate += gain;
    if (user->rate == user->bound) user->is_growing = false;
}

/* Subtract the gains of a round, the newest user first, as in SimGrid. */
static void charge(Resource *resource) {
    double left = resource->free;
    if (resource->is_fatpipe) {
        double least = resource->share;
        for (const Use *use = resource->oldest; use != NULL; use = use->newer) {
            double used = use->weight * use->user->gain;
            if (used < least) least = used;
        }
        left -= least;
        if (left < USED_UP) left = 0.0;
    } else {
        for (const Use *use = resource->newest; use != NULL; use = use->older) {
            left -= use->weight * use->user->gain;
            if (left < USED_UP) left = 0.0;
        }
    }
    resource->free = left;
    if (left <= 0.0)
        for (const Use *use = resource->oldest; use != NULL; use = use->newer) use->user->is_growing = false;
}

/* Let all users of a part grow by one round. Return how many uses of resources were computed. */
static Py_ssize_t grow_all(Part *part) {
    Py_ssize_t n_uses = 0;
    for (Py_ssize_t i = part->n_open - 1; i >= 0; i--) {
        n_uses += RESOURCE(part, i)->n_uses;
        if (!offer(RESOURCE(part, i))) swap(&part->resources, i, --part->n_open);
    }
    for (Py_ssize_t i = 0; i < part->n_growing; i++) grow(USER(part, i));
    for (Py_ssize_t i = part->n_open - 1; i >= 0; i--) {
        charge(RESOURCE(part, i));
        if (RESOURCE(part, i)->free <= 0.0) swap(&part->resources, i, --part->n_open);
    }
    for (Py_ssize_t i = part->n_growing - 1; i >= 0; i--)
        if (!USER(part, i)->is_growing) swap(&part->users, i, --part->n_growing);
    return n_uses;
}

static int raise_too_many_rounds(void) {
    PyObject *module = PyImport_ImportModule("pybatsched.simulator.work.sharing");
    PyObject *error = module == NULL ? NULL : PyObject_CallMethod(module, "too_many_rounds", NULL);
    if (error != NULL) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(module);
    return -1;
}

static int share(Part *part) {
    part->n_growing = part->users.n;
    part->n_open = part->resources.n;
    for (Py_ssize_t i = 0; i < part->n_growing; i++) {
        USER(part, i)->rate = 0.0;
        USER(part, i)->is_growing = true;
    }
    for (Py_ssize_t i = 0; i < part->n_open; i++) RESOURCE(part, i)->free = RESOURCE(part, i)->capacity;
    Py_ssize_t n_uses = 0;
    for (int round = 1; part->n_growing > 0; round++) {
        if (round > MAX_ROUNDS) return raise_too_many_rounds();
        n_uses += grow_all(part);
        if (n_uses > SIGNAL_USES) {
            n_uses = 0;
            if (PyErr_CheckSignals() < 0) return -1;
        }
    }
    return 0;
}

/* --- sharing ----------------------------------------------------------------------------------------------------- */

static PyObject *sharing_add(Sharing *self, PyObject *given) {
    User *user = (User *)given;
    if (!PyObject_TypeCheck(given, &UserType)) return PyErr_Format(PyExc_TypeError, "expected a User, found %R", given);
    if (user->is_added) return PyErr_Format(PyExc_ValueError, "the user shares its resources already");
    for (Py_ssize_t i = 0; i < user->n_uses; i++)
        if (push(&self->changed, user->uses[i].resource) < 0) return NULL;
    for (Py_ssize_t i = 0; i < user->n_uses; i++) {
        Use *use = &user->uses[i];
        Resource *resource = use->resource;
        if (resource->n_uses == 1) resource->oldest->user->knows_distinct = false;
        use->older = resource->newest;
        use->newer = NULL;
        *(use->older ? &use->older->newer : &resource->oldest) = use;
        resource->newest = use;
        resource->n_uses++;
    }
    user->is_added = true;
    user->knows_distinct = false;
    user->rate = user->n_uses ? 0.0 : 1.0;
    Py_RETURN_NONE;
}

static PyObject *sharing_remove(Sharing *self, PyObject *given) {
    User *user = (User *)given;
    if (!PyObject_TypeCheck(given, &UserType)) return PyErr_Format(PyExc_TypeError, "expected a User, found %R", given);
    if (!user->is_added && user->n_uses) return PyErr_Format(PyExc_KeyError, "the user does not share its resources");
    for (Py_ssize_t i = 0; i < user->n_uses; i++)
        if (push(&self->changed, user->uses[i].resource) < 0) return NULL;
    unlink_uses(user);
    user->rate = 0.0;
    Py_RETURN_NONE;
}

static PyObject *sharing_change(Sharing *self, PyObject *given) {
    if (!PyObject_TypeCheck(given, &ResourceType))
        return PyErr_Format(PyExc_TypeError, "expected a Resource, found %R", given);
    if (push(&self->changed, given) < 0) return NULL;
    for (Use *use = ((Resource *)given)->oldest; use != NULL; use = use->newer) use->user->knows_distinct = false;
    Py_RETURN_NONE;
}

static PyObject *sharing_solve(Sharing *self, PyObject *ignored) {
    (void)ignored;
    Part part = {{NULL, 0, 0}, {NULL, 0, 0}, 0, 0};
    int failed = find_affected(&part, &self->changed);
    PyObject *users = NULL;
    if (!failed) {
        clear(&self->changed);
        users = PyList_New(part.users.n);
        for (Py_ssize_t i = 0; users != NULL && i < part.users.n; i++)
            PyList_SET_ITEM(users, i, Py_NewRef(part.users.items[i]));
        failed = users == NULL || share(&part) < 0;
    }
    clear(&part.users);
    clear(&part.resources);
    if (failed) Py_CLEAR(users);
    return users;
}

static void sharing_dealloc(Sharing *self) {
    clear(&self->changed);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef sharing_methods[] = {
    {"add", (PyCFunction)sharing_add, METH_O, NULL},
    {"remove", (PyCFunction)sharing_remove, METH_O, NULL},
    {"change", (PyCFunction)sharing_change, METH_O, NULL},
    {"solve", (PyCFunction)sharing_solve, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject SharingType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pybatsched.simulator.work._sharing.Sharing",
    .tp_doc = "Users and their rates; see pybatsched.simulator.work.sharing.",
    .tp_basicsize = sizeof(Sharing),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)sharing_dealloc,
    .tp_methods = sharing_methods,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pybatsched.simulator.work._sharing",
    .m_doc = "The twin in C of pybatsched.simulator.work.sharing.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__sharing(void) {
    if (PyType_Ready(&ResourceType) < 0 || PyType_Ready(&UserType) < 0 || PyType_Ready(&SharingType) < 0) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL) return NULL;
    if (PyModule_AddObjectRef(made, "Resource", (PyObject *)&ResourceType) < 0 ||
        PyModule_AddObjectRef(made, "User", (PyObject *)&UserType) < 0 ||
        PyModule_AddObjectRef(made, "Sharing", (PyObject *)&SharingType) < 0 ||
        PyModule_AddObject(made, "USED_UP", PyFloat_FromDouble(USED_UP)) < 0 ||
        PyModule_AddIntConstant(made, "MAX_ROUNDS", MAX_ROUNDS) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
