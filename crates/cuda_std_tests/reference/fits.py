#!/usr/bin/env python3
"""Computes the coefficients of the polynomials of doubles in cuda_std::math.

Usage: fits.py [NAME]... Two methods: E. Remez's exchange on a grid (1934), where the error counts relatively; and the
first terms of a Chebyshev series where that is as good. The first coefficients are rounded one by one, so that those
behind take up what rounding left.
"""
import sys

import mpmath as m
from mpmath import mp, mpf

mp.prec = 240


def chebyshev(f, low, high, count):
    """The series of f up to degree count - 1, as powers of x."""
    low, high, n = mpf(low), mpf(high), count + 16
    angles = [(2 * i + 1) * m.pi / (2 * n) for i in range(n)]
    values = [f((low + high) / 2 + (high - low) / 2 * m.cos(t)) for t in angles]
    series = [2 / mpf(n) * m.fsum(v * m.cos(j * t) for v, t in zip(values, angles)) for j in range(count)]
    series[0] /= 2
    basis = [[mpf(1)], [mpf(0), mpf(1)]]
    while len(basis) < count:
        following = [mpf(0)] + [2 * c for c in basis[-1]]
        for i, c in enumerate(basis[-2]):
            following[i] -= c
        basis.append(following)
    powers = [m.fsum(series[j] * basis[j][i] for j in range(i, count)) for i in range(count)]
    # From powers of u to those of x, by Horner's rule.
    slope, shift, result = 2 / (high - low), -(low + high) / (high - low), [mpf(0)]
    for c in reversed(powers):
        shifted = [mpf(0)] + [slope * r for r in result]
        result = [s + shift * r for s, r in zip(shifted, result + [mpf(0)])]
        result[0] += c
    return [float(c) for c in result[:count]]


def exchange(xs, f, w, powers):
    """Coefficients of these powers that minimise the largest w·|f - p| over the grid."""
    count, n = len(powers) + 1, len(xs)
    points = [round((n - 1) * (1 - float(m.cos(m.pi * i / (count - 1)))) / 2) for i in range(count)]
    for _ in range(40):
        a, b = m.matrix(count, count), m.matrix(count, 1)
        for row, i in enumerate(points):
            for column, power in enumerate(powers):
                a[row, column] = xs[i] ** power
            a[row, count - 1], b[row] = (-1) ** row / w[i], f[i]
        *c, level = m.lu_solve(a, b)
        left = [w[i] * (f[i] - m.fsum(k * xs[i] ** p for k, p in zip(c, powers))) for i in range(n)]
        extrema = []
        for i in range(n):
            if extrema and (left[extrema[-1]] > 0) == (left[i] > 0):
                if abs(left[i]) > abs(left[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > count:
            extrema.pop(0 if abs(left[extrema[0]]) < abs(left[extrema[-1]]) else -1)
        if len(extrema) < count or max(map(abs, left)) < abs(level) * mpf("1.004"):
            break
        points = extrema
    return c


def minimax(f, low, high, count, weight, alone=4):
    """The best polynomial; its first coefficients `alone` are rounded one after the other."""
    low, high, n = mpf(low), mpf(high), 14 * count
    xs = [(low + high) / 2 - (high - low) / 2 * m.cos(m.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    w, left, result = [weight(x) for x in xs], [f(x) for x in xs], []
    for first in range(min(alone, count)):
        c = exchange(xs, left, w, range(first, count))
        result.append(float(c[0]))
        left = [l - result[-1] * x ** first for l, x in zip(left, xs)]
    return result + [float(k) for k in c[1:]]


def odd(f):
    """f(√s)/√s = 1 + s·(what is returned)."""
    return lambda s: (f(m.sqrt(s)) / m.sqrt(s) - 1) / s


def relative(f):
    """How much an error in `odd(f)` counts."""
    return lambda s: s * m.sqrt(s) / f(m.sqrt(s))


def at(k, f):
    """f of x as a function of t = (x-k)/(x+k)."""
    return lambda t: f(k * (1 + t) / (1 - t))



def log_erfc(a):
    return -m.log(m.erfc(a)) / a


def stirling(u):
    return m.exp(m.loggamma(1 / u) - ((1 / u - 0.5) * m.log(1 / u) - 1 / u))


def log_stirling(u):
    return m.loggamma(1 / u) - (1 / u - 0.5) * (m.log(1 / u) - 1)


TINY = mpf(2) ** -40
FITS = {
    "asin": lambda: minimax(odd(m.asin), TINY, "0.2925", 13, relative(m.asin)),
    "atan": lambda: minimax(odd(m.atan), TINY, 1, 19, relative(m.atan)),
    "exp2": lambda: chebyshev(lambda r: mpf(2) ** r, "-0.5001", "0.5001", 12),
    "exp10": lambda: chebyshev(lambda r: mpf(10) ** r, "-0.15055", "0.15055", 12),
    "erf": lambda: minimax(log_erfc, TINY, "5.93", 24, lambda a: a * m.erfc(a) / m.erf(a)),
    "erfc": lambda: chebyshev(at(4, lambda a: (1 + 2 * a) * m.erfc(a) * m.exp(a * a)), -1, "0.7446", 23),
    "tgamma": lambda: chebyshev(stirling, 0, "0.25", 13),
    "lgamma from 2.5": lambda: chebyshev(log_stirling, 0, "0.4", 15),
    "lgamma below": lambda: chebyshev(at(1, lambda x: m.loggamma(x) / ((x - 1) * (x - 2))), "-0.3335", "0.42862", 22),
    "pow": lambda: chebyshev(lambda s: (odd(lambda q: 2 * m.atanh(q / 2))(s) - mpf(1) / 12) / s, TINY, "0.1178", 8),
}


def main():
    for name in sys.argv[1:] or FITS:
        print(name + ":", ", ".join(map(repr, FITS[name]())))


main()
