/* The classes of availability.py and freed_intervals.py in C, in flat arrays: the same answers, several times as fast.
 *
 * These modules are the reference: their docstrings say what each method does and costs, and tests compare both. Times
 * are doubles on Batsim's tick; numbers of processors are 64-bit integers.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

#define TICK 1e-6 /* these two as in pybatsched.core.instants, as a test checks */
#define HALF_TICK 5e-7
#define BLOCK 16 /* steps of a block of the index */
#define ENOUGH 1e9 /* below this, a number in millionths is an exact double, and its error is far below one half */

typedef struct {
    PyObject_HEAD
    double *times;   /* ascending; there is always a first one */
    long long *free; /* free[i] processors from times[i] until times[i + 1] */
    long long *tops; /* the largest number of free processors in each block of steps, for the first n_tops blocks */
    Py_ssize_t n;
    Py_ssize_t n_tops;
    Py_ssize_t capacity; /* of times and free; tops has one entry for each block */
} Profile;

/* Times, each with the number of its interval; see PlainFreedIntervals. */
typedef struct {
    double *at;
    long long *number;
    Py_ssize_t n;
    Py_ssize_t capacity;
} Stack;

typedef struct {
    PyObject_HEAD
    long long n;
    Stack starts; /* ascending */
    Stack ends;   /* descending */
} Gains;

static PyTypeObject ProfileType;
static PyTypeObject GainsType;

/* --- instants ---------------------------------------------------------------------------------------------------- */

/* Round to the tick, as round(x, 6) does; -1 and an exception if there is no memory for that.
 *
 * CPython rounds with integers of any length, because the nearest decimal may depend on the last bit of a double. This
 * is rare: the relative error of x * 1e6 is below 2^-53. If x * 1e6 is not that close to the middle between two
 * integers, the nearer integer is the answer. CPython handles all other numbers.
 */
static double rounded_to_tick(double x) {
    double y = fabs(x) * 1e6;
    if (y < ENOUGH * 1e6) {
        double whole = floor(y), rest = y - whole; /* exact */
        if (fabs(rest - 0.5) > y * 2.3e-16) {
            return copysign((rest > 0.5 ? whole + 1 : whole) / 1e6, x); /* the double next to it, as IEEE 754 divides */
        }
    }
    if (!isfinite(x)) return x;
    char *text = PyOS_double_to_string(x, 'f', 6, 0, NULL);
    if (text == NULL) return -1;
    double rounded = PyOS_string_to_double(text, NULL, NULL);
    PyMem_Free(text);
    return rounded;
}

static double instant(double start_at, double span_s) {
    return span_s == INFINITY ? INFINITY : rounded_to_tick(start_at + span_s);
}

/* NaN is neither before nor after another time, so it would break the order of steps. */
static PyObject *refuse_nan(void) {
    PyErr_SetString(PyExc_ValueError, "a time is NaN; expected a number of seconds");
    return NULL;
}

/* Read the only argument of a method, a time. */
static int read_time(PyObject *given, double *at) {
    *at = PyFloat_AsDouble(given);
    if (*at == -1.0 && PyErr_Occurred()) return -1;
    return isnan(*at) && refuse_nan() == NULL ? -1 : 0;
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

#define N_BLOCKS(n) (((n) + BLOCK - 1) / BLOCK)

static int reserve(Profile *self, Py_ssize_t n) {
    if (n <= self->capacity) return 0;
    Py_ssize_t capacity = self->capacity ? self->capacity : 16;
    while (capacity < n) capacity *= 2;
    double *times = PyMem_Realloc(self->times, (size_t)capacity * sizeof(double));
    if (times == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->times = times;
    long long *free = PyMem_Realloc(self->free, (size_t)capacity * sizeof(long long));
    if (free == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->free = free;
    long long *tops = PyMem_Realloc(self->tops, (size_t)N_BLOCKS(capacity) * sizeof(long long));
    if (tops == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->tops = tops;
    self->capacity = capacity;
    return 0;
}

static Profile *make(PyTypeObject *type, Py_ssize_t capacity) {
    Profile *self = (Profile *)type->tp_alloc(type, 0);
    if (self != NULL && reserve(self, capacity) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}

/* The arguments are those of __init__, which may be others in a subclass. */
static PyObject *profile_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args;
    (void)kwargs;
    Profile *self = make(type, 1);
    if (self == NULL) return NULL;
    self->times[0] = 0.0;
    self->free[0] = 0;
    self->n = 1;
    return (PyObject *)self;
}

static int profile_init(Profile *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"now", "n_free", NULL};
    double now;
    long long n_free;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "dL", names, &now, &n_free)) return -1;
    if (isnan(now)) {
        refuse_nan();
        return -1;
    }
    self->times[0] = now;
    self->free[0] = n_free;
    self->n = 1;
    self->n_tops = 0;
    return 0;
}

static void profile_dealloc(Profile *self) {
    PyMem_Free(self->times);
    PyMem_Free(self->free);
    PyMem_Free(self->tops);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

/* The first step in [low, high) that begins at a time or after it. The halves are equally probable, so the loop is
 * written for a compiler that chooses without a branch. */
static Py_ssize_t at_or_after(const Profile *self, double at, Py_ssize_t low, Py_ssize_t high) {
    if (low >= high) return low;
    const double *first = self->times + low;
    for (Py_ssize_t n = high - low; n > 1; n -= n / 2) first = first[n / 2 - 1] < at ? first + n / 2 : first;
    return first - self->times + (*first < at);
}

/* The same if it is probably near: O(log distance). */
static Py_ssize_t near(const Profile *self, double at, Py_ssize_t low, Py_ssize_t high) {
    const double *times = self->times;
    Py_ssize_t reach = 4;
    while (low + reach < high && times[low + reach] < at) {
        low += reach + 1;
        reach *= 2;
    }
    if (low + reach < high) high = low + reach;
    return at_or_after(self, at, low, high);
}

/* The first step that begins after a time. */
static Py_ssize_t after(const Profile *self, double at) {
    const double *first = self->times;
    for (Py_ssize_t n = self->n; n > 1; n -= n / 2) first = first[n / 2 - 1] <= at ? first + n / 2 : first;
    return first - self->times + (*first <= at);
}

/* The step that contains a time; the first step for earlier times. It is often the first. */
static Py_ssize_t step_of(const Profile *self, double at) {
    if (self->n == 1 || at < self->times[1]) return 0;
    Py_ssize_t i = after(self, at) - 1;
    return i < 0 ? 0 : i;
}

/* Begin a step with as many free processors as the one before it. Its memory has been reserved. */
static void insert(Profile *self, Py_ssize_t i, double at) {
    memmove(self->times + i + 1, self->times + i, (size_t)(self->n - i) * sizeof(double));
    memmove(self->free + i + 1, self->free + i, (size_t)(self->n - i) * sizeof(long long));
    self->times[i] = at;
    self->free[i] = self->free[i - 1];
    self->n++;
}

static void erase(Profile *self, Py_ssize_t i) {
    self->n--;
    memmove(self->times + i, self->times + i + 1, (size_t)(self->n - i) * sizeof(double));
    memmove(self->free + i, self->free + i + 1, (size_t)(self->n - i) * sizeof(long long));
}

/* Forget the index from a step on, because it changes there. */
static void forget_tops(Profile *self, Py_ssize_t i) {
    if (self->n_tops > i / BLOCK) self->n_tops = i / BLOCK;
}

static int add(Profile *self, long long delta, double start_at, double end_at) {
    if (start_at < self->times[0]) start_at = self->times[0];
    if (end_at <= start_at || start_at == INFINITY) return 0;
    if (reserve(self, self->n + 2) < 0) return -1;
    Py_ssize_t i = at_or_after(self, start_at, 0, self->n), j = self->n;
    forget_tops(self, i);
    if (i == self->n || self->times[i] != start_at) insert(self, i, start_at);
    if (end_at == INFINITY) {
        j = self->n;
    } else {
        j = at_or_after(self, end_at, i, self->n);
        if (j == self->n || self->times[j] != end_at) insert(self, j, end_at);
    }
    for (Py_ssize_t k = i; k < j; k++) self->free[k] += delta;
    /* Only the first and the last step can be equal to their neighbours now. */
    if (j < self->n && self->free[j] == self->free[j - 1]) erase(self, j);
    if (i > 0 && self->free[i] == self->free[i - 1]) erase(self, i);
    return 0;
}

/* --- changes ----------------------------------------------------------------------------------------------------- */

static Profile *copy_of(const Profile *self) {
    Profile *other = make(Py_TYPE(self), self->n);
    if (other == NULL) return NULL;
    memcpy(other->times, self->times, (size_t)self->n * sizeof(double));
    memcpy(other->free, self->free, (size_t)self->n * sizeof(long long));
    other->n = self->n;
    return other;
}

static PyObject *profile_copy(Profile *self, PyObject *unused) { return (PyObject *)copy_of(self); }

static PyObject *profile_advance(Profile *self, PyObject *arg) {
    double now;
    if (read_time(arg, &now) < 0) return NULL;
    Py_ssize_t i = after(self, now) - 1;
    if (i >= 0) {
        if (i > 0) {
            self->n -= i;
            self->n_tops = 0;
            memmove(self->times, self->times + i, (size_t)self->n * sizeof(double));
            memmove(self->free, self->free + i, (size_t)self->n * sizeof(long long));
        }
        self->times[0] = now;
    }
    Py_RETURN_NONE;
}

static PyObject *changed(Profile *self, PyObject *args, int sign) {
    long long n;
    double start_at, end_at;
    if (!PyArg_ParseTuple(args, "Ldd", &n, &start_at, &end_at)) return NULL;
    if (isnan(start_at) || isnan(end_at)) return refuse_nan();
    if (add(self, sign * n, start_at, end_at) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *profile_take(Profile *self, PyObject *args) { return changed(self, args, -1); }

static PyObject *profile_give(Profile *self, PyObject *args) { return changed(self, args, 1); }

typedef struct {
    double at;
    long long delta;
} Change;

/* Shell's sort by time: for the usual few hundred, faster than a sort that calls a comparison for each pair. */
static void sort(Change *changes, Py_ssize_t n) {
    Py_ssize_t gap = 1;
    while (gap < n / 9) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (Py_ssize_t i = gap; i < n; i++) {
            Change one = changes[i];
            Py_ssize_t k = i;
            for (; k >= gap && changes[k - gap].at > one.at; k -= gap) changes[k] = changes[k - gap];
            changes[k] = one;
        }
}

/* Read (n, start, end) from a tuple. */
static int read_span(PyObject *span, long long *n, double *start_at, double *end_at) {
    if (!PyTuple_Check(span)) {
        PyErr_SetString(PyExc_TypeError, "expected spans of (n, start, end)");
        return -1;
    }
    if (!PyArg_ParseTuple(span, "Ldd", n, start_at, end_at)) return -1;
    return (isnan(*start_at) || isnan(*end_at)) && refuse_nan() == NULL ? -1 : 0;
}

typedef struct {
    Change *changes;
    Py_ssize_t n;
    Py_ssize_t capacity;
} Changes;

/* Record the changes at the start and end of a span. */
static int note_span(const Profile *self, Changes *made, long long n, double start_at, double end_at) {
    if (start_at < self->times[0]) start_at = self->times[0];
    if (!(start_at < end_at) || start_at == INFINITY) return 0;
    if (made->n + 2 > made->capacity) {
        Py_ssize_t capacity = made->capacity ? 2 * made->capacity : 64;
        Change *changes = PyMem_Realloc(made->changes, (size_t)capacity * sizeof(Change));
        if (changes == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        made->changes = changes;
        made->capacity = capacity;
    }
    made->changes[made->n++] = (Change){start_at, -n};
    if (end_at != INFINITY) made->changes[made->n++] = (Change){end_at, n};
    return 0;
}

/* Apply all recorded changes. */
static int change_all(Profile *self, Changes *made) {
    Py_ssize_t n_before = self->n, n_changes = made->n, i = 0, c = 0, n = 0;
    Change *changes = made->changes;
    if (n_changes == 0) return 0;
    sort(changes, n_changes);
    Profile all = {.n = 0};
    if (reserve(&all, n_before + n_changes) < 0) return -1;
    long long before = 0, delta = 0;
    while (i < n_before || c < n_changes) {
        double at = i < n_before ? self->times[i] : INFINITY;
        if (c < n_changes && changes[c].at < at) at = changes[c].at;
        if (i < n_before && self->times[i] == at) before = self->free[i++];
        while (c < n_changes && changes[c].at == at) delta += changes[c++].delta;
        all.times[n] = at;
        all.free[n++] = before + delta;
    }
    PyMem_Free(self->times);
    PyMem_Free(self->free);
    PyMem_Free(self->tops);
    self->times = all.times;
    self->free = all.free;
    self->tops = all.tops;
    self->capacity = all.capacity;
    self->n = n;
    self->n_tops = 0;
    return 0;
}

static PyObject *profile_take_all(Profile *self, PyObject *spans) {
    Changes made = {NULL, 0, 0};
    PyObject *iterator = PyObject_GetIter(spans), *span;
    if (iterator == NULL) return NULL;
    while ((span = PyIter_Next(iterator)) != NULL) {
        long long n;
        double start_at, end_at;
        int failed = read_span(span, &n, &start_at, &end_at) < 0 || note_span(self, &made, n, start_at, end_at) < 0;
        Py_DECREF(span);
        if (failed) break;
    }
    Py_DECREF(iterator);
    int failed = PyErr_Occurred() != NULL || change_all(self, &made) < 0;
    PyMem_Free(made.changes);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

/* --- questions --------------------------------------------------------------------------------------------------- */

/* The first step in [i, last) with n free; last if there is none. */
static Py_ssize_t next_wide(Profile *self, long long n, Py_ssize_t i, Py_ssize_t last) {
    const long long *free = self->free;
    while (i < last) {
        Py_ssize_t block = i / BLOCK + 1, n_blocks = N_BLOCKS(last);
        Py_ssize_t stop = block * BLOCK < last ? block * BLOCK : last;
        for (; i < stop; i++)
            if (free[i] >= n) return i;
        for (Py_ssize_t b = self->n_tops; b < n_blocks; b++) {
            Py_ssize_t end = (b + 1) * BLOCK < self->n ? (b + 1) * BLOCK : self->n;
            long long top = free[b * BLOCK];
            for (Py_ssize_t k = b * BLOCK + 1; k < end; k++) top = free[k] > top ? free[k] : top;
            self->tops[b] = top;
            self->n_tops = b + 1;
        }
        while (block < n_blocks && self->tops[block] < n) block++;
        i = block * BLOCK;
    }
    return last;
}

/* The first possible start at a time or later, or in a step before `last`. Steps from `end` on are not examined. */
static double first_start(Profile *self, long long n, double span_s, double not_before, Py_ssize_t last,
                          Py_ssize_t end) {
    const double *times = self->times;
    const long long *free = self->free;
    Py_ssize_t i = step_of(self, not_before);
    double start = not_before > times[0] ? not_before : times[0];
    for (;;) {
        if (free[i] < n) {
            i = next_wide(self, n, i + 1, last);
            if (i >= last) return INFINITY;
            start = times[i];
        }
        Py_ssize_t k = near(self, start + span_s - HALF_TICK, i + 1, end) - 1;
        while (free[k] >= n) {
            if (k <= i) return start;
            k--;
        }
        i = k;
    }
}

static double earliest(Profile *self, long long n, double span_s, double not_before, double latest) {
    double start = not_before > self->times[0] ? not_before : self->times[0];
    if (start > latest) return INFINITY;
    Py_ssize_t last = latest == INFINITY ? self->n : after(self, latest);
    return first_start(self, n, span_s, not_before, last, self->n);
}

static PyObject *profile_earliest(Profile *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"n", "span_s", "not_before", "latest", NULL};
    long long n;
    double span_s, not_before, latest = INFINITY;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Ldd|d", names, &n, &span_s, &not_before, &latest)) return NULL;
    if (isnan(span_s) || isnan(not_before) || isnan(latest)) return refuse_nan();
    return PyFloat_FromDouble(earliest(self, n, span_s, not_before, latest));
}

static double better(Profile *self, long long n, double span_s, double place, double not_before, double before) {
    double start = not_before > self->times[0] ? not_before : self->times[0];
    if (before > place) before = place;
    if (start >= before) return place;
    Py_ssize_t end = at_or_after(self, place, 0, self->n), last = at_or_after(self, before, 0, end);
    double found = first_start(self, n, span_s, not_before, last, end);
    return found < place ? found : place;
}

static PyObject *profile_better(Profile *self, PyObject *args) {
    long long n;
    double span_s, place, not_before, before;
    if (!PyArg_ParseTuple(args, "Ldddd", &n, &span_s, &place, &not_before, &before)) return NULL;
    if (isnan(span_s) || isnan(place) || isnan(not_before) || isnan(before)) return refuse_nan();
    return PyFloat_FromDouble(better(self, n, span_s, place, not_before, before));
}

static double sooner(Profile *self, long long n, double span_s, double place, double now, double first, double last) {
    if (first >= place || last <= now) return place;
    double before = last < place ? last : place;
    Py_ssize_t end = at_or_after(self, place, 0, self->n), stop = before < place ? at_or_after(self, before, 0, end) : end;
    if (n > 0 && next_wide(self, n, step_of(self, first), stop) >= stop) return place;
    double not_before = self->times[step_of(self, first - span_s)];
    if (not_before < now) not_before = now;
    if (not_before >= before || self->times[0] >= before) return place;
    double found = first_start(self, n, span_s, not_before, stop, end);
    return found < place ? found : place;
}

static PyObject *profile_sooner(Profile *self, PyObject *args) {
    long long n;
    double span_s, place, now, first, last;
    if (!PyArg_ParseTuple(args, "Lddd(dd)", &n, &span_s, &place, &now, &first, &last)) return NULL;
    if (isnan(span_s) || isnan(place) || isnan(now) || isnan(first) || isnan(last)) return refuse_nan();
    return PyFloat_FromDouble(sooner(self, n, span_s, place, now, first, last));
}

static long long least_free(const Profile *self, double start_at, double end_at) {
    Py_ssize_t i = step_of(self, start_at), j = at_or_after(self, end_at - HALF_TICK, 0, self->n);
    long long least = self->free[i];
    for (Py_ssize_t k = i + 1; k < j; k++)
        if (self->free[k] < least) least = self->free[k];
    return least;
}

static PyObject *profile_least_free(Profile *self, PyObject *args) {
    double start_at, end_at;
    if (!PyArg_ParseTuple(args, "dd", &start_at, &end_at)) return NULL;
    if (isnan(start_at) || isnan(end_at)) return refuse_nan();
    return PyLong_FromLongLong(least_free(self, start_at, end_at));
}

static PyObject *profile_fits(Profile *self, PyObject *args) {
    long long n;
    double start_at, end_at;
    if (!PyArg_ParseTuple(args, "Ldd", &n, &start_at, &end_at)) return NULL;
    if (isnan(start_at) || isnan(end_at)) return refuse_nan();
    return PyBool_FromLong(least_free(self, start_at, end_at) >= n);
}

static PyObject *profile_most_free(Profile *self, PyObject *args) {
    double start_at, end_at;
    if (!PyArg_ParseTuple(args, "dd", &start_at, &end_at)) return NULL;
    if (isnan(start_at) || isnan(end_at)) return refuse_nan();
    Py_ssize_t i = step_of(self, start_at), j = at_or_after(self, end_at, 0, self->n);
    if (i >= j) return PyLong_FromLong(0);
    long long most = self->free[i];
    for (Py_ssize_t k = i + 1; k < j; k++)
        if (self->free[k] > most) most = self->free[k];
    return PyLong_FromLongLong(most);
}

static PyObject *profile_next_step(Profile *self, PyObject *arg) {
    double at;
    if (read_time(arg, &at) < 0) return NULL;
    Py_ssize_t i = after(self, at);
    for (i = i < 1 ? 1 : i; i < self->n; i++)
        if (self->free[i] != self->free[i - 1]) return PyFloat_FromDouble(self->times[i]);
    return PyFloat_FromDouble(INFINITY);
}

static PyObject *profile_step_at(Profile *self, PyObject *arg) {
    double at;
    if (read_time(arg, &at) < 0) return NULL;
    return PyFloat_FromDouble(self->times[step_of(self, at)]);
}

static PyObject *profile_free_at(Profile *self, PyObject *arg) {
    double at;
    if (read_time(arg, &at) < 0) return NULL;
    return PyLong_FromLongLong(self->free[step_of(self, at)]);
}

static PyObject *profile_steps(Profile *self, PyObject *unused) {
    PyObject *steps = PyList_New(self->n);
    if (steps == NULL) return NULL;
    for (Py_ssize_t i = 0; i < self->n; i++) {
        PyObject *step = Py_BuildValue("(dL)", self->times[i], self->free[i]);
        if (step == NULL) {
            Py_DECREF(steps);
            return NULL;
        }
        PyList_SET_ITEM(steps, i, step);
    }
    return steps;
}

/* --- freed intervals --------------------------------------------------------------------------------------------- */

static int push(Stack *stack, long long number, double at) {
    if (stack->n == stack->capacity) {
        Py_ssize_t capacity = stack->capacity ? 2 * stack->capacity : 16;
        double *all_at = PyMem_Realloc(stack->at, (size_t)capacity * sizeof(double));
        if (all_at != NULL) stack->at = all_at;
        long long *numbers = PyMem_Realloc(stack->number, (size_t)capacity * sizeof(long long));
        if (numbers != NULL) stack->number = numbers;
        if (all_at == NULL || numbers == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        stack->capacity = capacity;
    }
    stack->at[stack->n] = at;
    stack->number[stack->n++] = number;
    return 0;
}

/* The index of the first entry with this number or a larger one. */
static Py_ssize_t since(const Stack *stack, long long number) {
    Py_ssize_t low = 0, high = stack->n;
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if (stack->number[middle] < number) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void drop(Stack *stack, long long number) {
    Py_ssize_t i = since(stack, number);
    stack->n -= i;
    memmove(stack->at, stack->at + i, (size_t)stack->n * sizeof(double));
    memmove(stack->number, stack->number + i, (size_t)stack->n * sizeof(long long));
}

static int gain(Gains *self, double start_at, double end_at) {
    Stack *starts = &self->starts, *ends = &self->ends;
    while (starts->n > 0 && starts->at[starts->n - 1] >= start_at) starts->n--;
    while (ends->n > 0 && ends->at[ends->n - 1] <= end_at) ends->n--;
    if (push(starts, self->n, start_at) < 0 || push(ends, self->n, end_at) < 0) return -1;
    self->n++;
    return 0;
}

static int hull_since(const Gains *self, long long n, double *first, double *last) {
    *first = INFINITY;
    *last = -INFINITY;
    if (n >= self->n) return 0;
    Py_ssize_t start = since(&self->starts, n), end = since(&self->ends, n);
    if (start == self->starts.n || end == self->ends.n) {
        PyErr_SetString(PyExc_IndexError, "these gains were forgotten");
        return -1;
    }
    *first = self->starts.at[start];
    *last = self->ends.at[end];
    return 0;
}

static void gains_dealloc(Gains *self) {
    PyMem_Free(self->starts.at);
    PyMem_Free(self->starts.number);
    PyMem_Free(self->ends.at);
    PyMem_Free(self->ends.number);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *gains_add(Gains *self, PyObject *args) {
    double start_at, end_at;
    if (!PyArg_ParseTuple(args, "dd", &start_at, &end_at)) return NULL;
    if (isnan(start_at) || isnan(end_at)) return refuse_nan();
    if (gain(self, start_at, end_at) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *gains_any_since(Gains *self, PyObject *arg) {
    long long n = PyLong_AsLongLong(arg);
    if (n == -1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(self->n > n);
}

static PyObject *gains_copy(Gains *self, PyObject *unused) {
    Gains *other = (Gains *)Py_TYPE(self)->tp_alloc(Py_TYPE(self), 0);
    if (other == NULL) return NULL;
    other->n = self->n;
    for (Py_ssize_t i = 0; i < self->starts.n; i++)
        if (push(&other->starts, self->starts.number[i], self->starts.at[i]) < 0) goto failed;
    for (Py_ssize_t i = 0; i < self->ends.n; i++)
        if (push(&other->ends, self->ends.number[i], self->ends.at[i]) < 0) goto failed;
    return (PyObject *)other;
failed:
    Py_DECREF(other);
    return NULL;
}

static PyObject *gains_forget(Gains *self, PyObject *arg) {
    long long n = PyLong_AsLongLong(arg);
    if (n == -1 && PyErr_Occurred()) return NULL;
    drop(&self->starts, n);
    drop(&self->ends, n);
    Py_RETURN_NONE;
}

static PyObject *gains_hull_since(Gains *self, PyObject *arg) {
    double first, last;
    long long n = PyLong_AsLongLong(arg);
    if (n == -1 && PyErr_Occurred()) return NULL;
    if (hull_since(self, n, &first, &last) < 0) return NULL;
    return Py_BuildValue("(dd)", first, last);
}

/* --- passes over a whole plan ------------------------------------------------------------------------------------ */

/* Jobs as numbers, and the lists of reservations.py that they were read from. All are read and checked before a pass
 * changes anything: after a wrong value the plan is unchanged. No other code runs in between. */
typedef struct {
    PyObject *lists[5]; /* kept during a pass; NULL if it does not need them */
    Py_ssize_t n;
    void *memory; /* of all numbers */
    long long *sizes, *seen;
    double *spans_s, *places, *ends;
} Rows;

enum { SIZES, SEEN, SPANS_S, PLACES, ENDS };

static void release(Rows *rows) {
    for (int k = 0; k < 5; k++) Py_XDECREF(rows->lists[k]);
    PyMem_Free(rows->memory);
}

static int read_wholes(PyObject *list, Py_ssize_t n, long long *numbers) {
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (!PyLong_Check(item)) {
            PyErr_Format(PyExc_TypeError, "expected a whole number, got %.100s", Py_TYPE(item)->tp_name);
            return -1;
        }
        numbers[i] = PyLong_AsLongLong(item);
        if (numbers[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

static int read_reals(PyObject *list, Py_ssize_t n, double *numbers) {
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (PyFloat_Check(item)) {
            numbers[i] = PyFloat_AS_DOUBLE(item);
        } else if (PyLong_Check(item)) {
            numbers[i] = PyLong_AsDouble(item);
            if (numbers[i] == -1.0 && PyErr_Occurred()) return -1;
        } else {
            PyErr_Format(PyExc_TypeError, "expected a number of seconds, got %.100s", Py_TYPE(item)->tp_name);
            return -1;
        }
        if (isnan(numbers[i])) {
            refuse_nan();
            return -1;
        }
    }
    return 0;
}

/* Read all lists that are not NULL. */
static int read_lists(Rows *rows) {
    rows->n = -1;
    for (int k = 0; k < 5; k++) {
        PyObject *list = rows->lists[k];
        if (list == NULL) continue;
        if (!PyList_CheckExact(list)) {
            PyErr_SetString(PyExc_TypeError, "expected lists of numbers");
            return -1;
        }
        if (rows->n < 0) rows->n = PyList_GET_SIZE(list);
        if (PyList_GET_SIZE(list) != rows->n) {
            PyErr_SetString(PyExc_ValueError, "expected lists of one length");
            return -1;
        }
    }
    rows->memory = PyMem_Malloc((size_t)rows->n * (2 * sizeof(long long) + 3 * sizeof(double)));
    if (rows->memory == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    rows->sizes = rows->memory;
    rows->seen = rows->sizes + rows->n;
    rows->spans_s = (double *)(rows->seen + rows->n);
    rows->places = rows->spans_s + rows->n;
    rows->ends = rows->places + rows->n;
    if (read_wholes(rows->lists[SIZES], rows->n, rows->sizes) < 0) return -1;
    if (read_wholes(rows->lists[SEEN], rows->n, rows->seen) < 0) return -1;
    if (read_reals(rows->lists[SPANS_S], rows->n, rows->spans_s) < 0) return -1;
    if (read_reals(rows->lists[PLACES], rows->n, rows->places) < 0) return -1;
    return read_reals(rows->lists[ENDS], rows->n, rows->ends);
}

static int read_rows(PyObject *given, Rows *rows) {
    static const char *names[] = {"sizes", "seen", "spans_s", "places", "ends"};
    *rows = (Rows){.memory = NULL};
    for (int k = 0; k < 5; k++) /* all of them first, because getting one may run other code */
        if ((rows->lists[k] = PyObject_GetAttrString(given, names[k])) == NULL) goto failed;
    if (read_lists(rows) == 0) return 0;
failed:
    release(rows);
    return -1;
}

/* Put a new object into a list; return an error if it is NULL. */
static int put(PyObject *list, Py_ssize_t i, PyObject *made) {
    return made == NULL ? -1 : PyList_SetItem(list, i, made);
}

/* Move a row, and record its former place. */
static int move_row(Rows *rows, Py_ssize_t i, double place, PyObject *moved) {
    double end_at = instant(place, rows->spans_s[i]);
    if (end_at == -1.0 && PyErr_Occurred()) return -1;
    PyObject *pair = Py_BuildValue("(nd)", i, rows->places[i]);
    if (pair == NULL) return -1;
    int failed = PyList_Append(moved, pair) < 0 || put(rows->lists[PLACES], i, PyFloat_FromDouble(place)) < 0 ||
                 put(rows->lists[ENDS], i, PyFloat_FromDouble(end_at)) < 0;
    Py_DECREF(pair);
    rows->places[i] = place;
    rows->ends[i] = end_at;
    return failed ? -1 : 0;
}

static int move(Profile *self, long long n, double start_at, double end_at, double new_start_at, double new_end_at) {
    if (add(self, -n, new_start_at, start_at < new_end_at ? start_at : new_end_at) < 0) return -1;
    return add(self, n, start_at > new_end_at ? start_at : new_end_at, end_at);
}

static PyObject *profile_move(Profile *self, PyObject *args) {
    long long n;
    double start_at, end_at, new_start_at, new_end_at;
    if (!PyArg_ParseTuple(args, "L(dd)(dd)", &n, &start_at, &end_at, &new_start_at, &new_end_at)) return NULL;
    if (isnan(start_at) || isnan(end_at) || isnan(new_start_at) || isnan(new_end_at)) return refuse_nan();
    if (move(self, n, start_at, end_at, new_start_at, new_end_at) < 0) return NULL;
    Py_RETURN_NONE;
}

static int read_pass(PyObject *args, double *now, Rows *rows, Gains **gains) {
    PyObject *given;
    if (!PyArg_ParseTuple(args, "dOO!", now, &given, &GainsType, gains)) return -1;
    if (isnan(*now)) {
        refuse_nan();
        return -1;
    }
    return read_rows(given, rows);
}

static int compress(Profile *self, double now, Rows *rows, Gains *gains, PyObject *moved) {
    PyObject *n_gains = PyLong_FromLongLong(gains->n);
    int failed = n_gains == NULL;
    for (Py_ssize_t i = 0; i < rows->n && !failed; i++) {
        double first, last, place = rows->places[i];
        if (rows->seen[i] == gains->n) continue;
        failed = hull_since(gains, rows->seen[i], &first, &last) < 0 ||
                 put(rows->lists[SEEN], i, Py_NewRef(n_gains)) < 0;
        if (failed || first >= place) continue;
        long long n = rows->sizes[i];
        double found = sooner(self, n, rows->spans_s[i], place, now, first, last);
        if (found < place) {
            double end_at = rows->ends[i];
            failed = move_row(rows, i, found, moved) < 0 ||
                     move(self, n, place, end_at, found, rows->ends[i]) < 0 || gain(gains, place, end_at) < 0;
            Py_SETREF(n_gains, PyLong_FromLongLong(gains->n));
            failed = failed || put(rows->lists[SEEN], i, Py_XNewRef(n_gains)) < 0;
        }
    }
    Py_XDECREF(n_gains);
    return failed ? -1 : 0;
}

static PyObject *profile_compress(Profile *self, PyObject *args) {
    double now;
    Rows rows;
    Gains *gains;
    if (read_pass(args, &now, &rows, &gains) < 0) return NULL;
    PyObject *moved = PyList_New(0);
    if (moved != NULL && compress(self, now, &rows, gains, moved) < 0) Py_CLEAR(moved);
    release(&rows);
    return moved;
}

/* The hull of the times at which too many processors are taken. */
static void overfull(const Profile *self, double *first, double *last) {
    *first = INFINITY;
    *last = -INFINITY;
    for (Py_ssize_t i = 0; i < self->n; i++)
        if (self->free[i] < 0) {
            if (*first == INFINITY) *first = self->times[i];
            *last = i + 1 < self->n ? self->times[i + 1] : INFINITY;
        }
}

/* Put a range of kept rows into a profile. */
static int put_in(Profile *self, const Rows *rows, Py_ssize_t from, Py_ssize_t to) {
    for (Py_ssize_t i = from; i < to; i++)
        if (add(self, -rows->sizes[i], rows->places[i], rows->ends[i]) < 0) return -1;
    return 0;
}

static int replan(Profile *self, Profile *full, double now, Rows *rows, Gains *gains, PyObject *moved) {
    Changes made = {NULL, 0, 0};
    double soon = now + 1.5 * TICK, first, last;
    int failed = 0;
    for (Py_ssize_t i = 0; i < rows->n && !failed; i++) {
        double place = rows->places[i];
        if (soon < place && place < INFINITY)
            failed = note_span(full, &made, rows->sizes[i], place, rows->ends[i]) < 0;
    }
    failed = failed || change_all(full, &made) < 0;
    PyMem_Free(made.changes);
    if (failed) return -1;
    overfull(full, &first, &last);
    Py_ssize_t n_put_in = 0; /* the number of rows in this profile */
    for (Py_ssize_t i = 0; i < rows->n; i++) {
        double place = rows->places[i], end_at = rows->ends[i];
        long long n = rows->sizes[i];
        int is_valid = soon < place && place < INFINITY;
        if (is_valid && (place >= last || (place < end_at && end_at <= first) || least_free(full, place, end_at) >= 0))
            continue;
        if (put_in(self, rows, n_put_in, i) < 0) return -1;
        n_put_in = i;
        if (is_valid && least_free(self, place, end_at) >= n) continue;
        double found = earliest(self, n, rows->spans_s[i], now, INFINITY);
        if (is_valid && add(full, n, place, end_at) < 0) return -1;
        if (found != place) {
            if (put(rows->lists[SEEN], i, PyLong_FromLongLong(gains->n)) < 0 ||
                move_row(rows, i, found, moved) < 0 || gain(gains, place, end_at) < 0)
                return -1;
        }
        double found_end_at = rows->ends[i];
        if (add(full, -n, found, found_end_at) < 0) return -1;
        if (least_free(full, found, found_end_at) < 0) {
            if (found < first) first = found;
            if (found_end_at > last) last = found_end_at;
        }
    }
    return 0;
}

static PyObject *profile_replan(Profile *self, PyObject *args) {
    double now;
    Rows rows;
    Gains *gains;
    if (read_pass(args, &now, &rows, &gains) < 0) return NULL;
    PyObject *moved = PyList_New(0), *result = NULL;
    Profile *full = moved == NULL ? NULL : copy_of(self);
    if (full != NULL && replan(self, full, now, &rows, gains, moved) == 0) result = PyTuple_Pack(2, full, moved);
    Py_XDECREF(full);
    Py_XDECREF(moved);
    release(&rows);
    return result;
}

static int place_anew(Profile *self, double now, double freed_from, const Rows *rows, PyObject *found) {
    for (Py_ssize_t i = 0; i < rows->n; i++) {
        long long n = rows->sizes[i];
        double span_s = rows->spans_s[i], place = rows->places[i], not_before = now;
        int keeps = place <= freed_from && place != INFINITY && least_free(self, place, instant(place, span_s)) >= n;
        if (!keeps) {
            if (freed_from != -INFINITY && place != INFINITY) not_before = place;
            if (freed_from != -INFINITY && freed_from < place)
                not_before = self->times[step_of(self, freed_from - span_s)];
            if (not_before < now) not_before = now;
        }
        double better = keeps ? place : earliest(self, n, span_s, not_before, INFINITY);
        if (add(self, -n, better, instant(better, span_s)) < 0 || put(found, i, PyFloat_FromDouble(better)) < 0) return -1;
        if (place < freed_from && better != place) freed_from = place;
    }
    return 0;
}

static PyObject *profile_place_anew(Profile *self, PyObject *args) {
    double now, freed_from;
    Rows rows = {.memory = NULL};
    if (!PyArg_ParseTuple(args, "ddOOO", &now, &freed_from, &rows.lists[SIZES], &rows.lists[SPANS_S],
                          &rows.lists[PLACES]))
        return NULL;
    if (isnan(now) || isnan(freed_from)) return refuse_nan();
    for (int k = 0; k < 5; k++) Py_XINCREF(rows.lists[k]);
    PyObject *found = read_lists(&rows) < 0 ? NULL : PyList_New(rows.n);
    if (found != NULL && place_anew(self, now, freed_from, &rows, found) < 0) Py_CLEAR(found);
    release(&rows);
    return found;
}

/* --- the module -------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"copy", (PyCFunction)profile_copy, METH_NOARGS, NULL},
    {"advance", (PyCFunction)profile_advance, METH_O, NULL},
    {"take", (PyCFunction)profile_take, METH_VARARGS, NULL},
    {"take_all", (PyCFunction)profile_take_all, METH_O, NULL},
    {"give", (PyCFunction)profile_give, METH_VARARGS, NULL},
    {"earliest", (PyCFunction)(void (*)(void))profile_earliest, METH_VARARGS | METH_KEYWORDS, NULL},
    {"fits", (PyCFunction)profile_fits, METH_VARARGS, NULL},
    {"better", (PyCFunction)profile_better, METH_VARARGS, NULL},
    {"sooner", (PyCFunction)profile_sooner, METH_VARARGS, NULL},
    {"most_free", (PyCFunction)profile_most_free, METH_VARARGS, NULL},
    {"least_free", (PyCFunction)profile_least_free, METH_VARARGS, NULL},
    {"next_step", (PyCFunction)profile_next_step, METH_O, NULL},
    {"step_at", (PyCFunction)profile_step_at, METH_O, NULL},
    {"free_at", (PyCFunction)profile_free_at, METH_O, NULL},
    {"steps", (PyCFunction)profile_steps, METH_NOARGS, NULL},
    {"move", (PyCFunction)profile_move, METH_VARARGS, NULL},
    {"compress", (PyCFunction)profile_compress, METH_VARARGS, NULL},
    {"replan", (PyCFunction)profile_replan, METH_VARARGS, NULL},
    {"place_anew", (PyCFunction)profile_place_anew, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject ProfileType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pybatsched.policies._profile.AvailabilityProfile",
    .tp_doc = "How many processors are free from now on; see pybatsched.policies.availability.",
    .tp_basicsize = sizeof(Profile),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = profile_new,
    .tp_init = (initproc)profile_init,
    .tp_dealloc = (destructor)profile_dealloc,
    .tp_methods = methods,
};

static PyMethodDef gains_methods[] = {
    {"add", (PyCFunction)gains_add, METH_VARARGS, NULL},
    {"any_since", (PyCFunction)gains_any_since, METH_O, NULL},
    {"copy", (PyCFunction)gains_copy, METH_NOARGS, NULL},
    {"forget", (PyCFunction)gains_forget, METH_O, NULL},
    {"hull_since", (PyCFunction)gains_hull_since, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef gains_members[] = {
    {"n", T_LONGLONG, offsetof(Gains, n), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject GainsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pybatsched.policies._profile.FreedIntervals",
    .tp_doc = "Room that became free in a plan; see pybatsched.policies.freed_intervals.",
    .tp_basicsize = sizeof(Gains),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)gains_dealloc,
    .tp_methods = gains_methods,
    .tp_members = gains_members,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pybatsched.policies._profile",
    .m_doc = "The twins in C of pybatsched.policies.availability and pybatsched.policies.freed_intervals.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__profile(void) {
    if (PyType_Ready(&ProfileType) < 0 || PyType_Ready(&GainsType) < 0) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL) return NULL;
    if (PyModule_AddObjectRef(made, "AvailabilityProfile", (PyObject *)&ProfileType) < 0 ||
        PyModule_AddObjectRef(made, "FreedIntervals", (PyObject *)&GainsType) < 0 ||
        PyModule_AddObject(made, "TICK", PyFloat_FromDouble(TICK)) < 0 ||
        PyModule_AddObject(made, "HALF_TICK", PyFloat_FromDouble(HALF_TICK)) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
