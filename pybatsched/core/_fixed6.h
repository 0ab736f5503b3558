/* Numbers with six decimals, as Batsim writes them: what the parts in C share.
 *
 * CPython rounds and prints with integers of any length, because the nearest decimal may depend on the last bit of a
 * double. This is rare: the relative error of x * 1e6 is below 2^-53. If x * 1e6 is not that close to the middle between
 * two integers, the nearer integer is the answer. CPython handles all other numbers.
 */
#ifndef PYBATSCHED_SIX_H
#define PYBATSCHED_SIX_H
#include <Python.h>
#include <math.h>
#include <string.h>

#define ENOUGH 1e9 /* below this, a number in millionths is an exact double, and its error is far below one half */

/* Return x in whole millionths, without its sign; -1 if it depends on the last bit, or x is too large or not finite. */
static double millionths(double x) {
    double y = fabs(x) * 1e6;
    if (!(y < ENOUGH * 1e6)) return -1;
    double whole = floor(y), rest = y - whole; /* exact */
    if (fabs(rest - 0.5) <= y * 2.3e-16) return -1;
    return rest > 0.5 ? whole + 1 : whole;
}

/* Round to the tick, as round(x, 6) does; -1 and an exception if there is no memory for that. */
static double rounded_to_tick(double x) {
    double n = millionths(x);
    if (n >= 0) return copysign(n / 1e6, x); /* the double next to n / 1e6, as IEEE 754 divides */
    if (!isfinite(x)) return x;
    char *text = PyOS_double_to_string(x, 'f', 6, 0, NULL);
    if (text == NULL) return -1;
    double rounded = PyOS_string_to_double(text, NULL, NULL);
    PyMem_Free(text);
    return rounded;
}

#endif
