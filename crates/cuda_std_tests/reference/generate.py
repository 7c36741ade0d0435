#!/usr/bin/env python3
"""Writes double.txt: arguments and results of the functions of doubles, from mpmath at 240 bits.

Usage: generate.py [ROWS [SEED]] > double.txt. A line: the function, the bits of its arguments, and
those of the result rounded to a double and of what rounding left, all in hexadecimal.
"""
import random
import struct
import sys

from mpmath import mp, mpf
import mpmath as m

mp.prec = 240


def bits(x):
    return struct.pack(">d", x).hex()


def rounded(x):
    """The nearest double, subnormals and overflow included."""
    if x == 0:
        return 0.0
    e = m.frexp(x)[1]
    if e > 1024:
        return float("inf") if x > 0 else float("-inf")
    unit = mpf(2) ** max(e - 53, -1074)
    n = m.nint(x / unit)
    try:
        return float(n * unit)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


def erfcinv(y):
    """Newton's method on log erfc, from the asymptotic start."""
    if y > 1:
        return -erfcinv(2 - y)
    if y > mpf(1) / 2:
        return m.erfinv(1 - y)
    x = m.sqrt(-m.log(y))
    for _ in range(60):
        value = m.erfc(x)
        step = (m.log(value) - m.log(y)) * value * m.sqrt(m.pi) / 2 * m.exp(x * x)
        x += step
        if abs(step) < mpf(2) ** -200:
            break
    return x


def erfinv(x):
    return m.erfinv(x) if abs(x) < 0.5 else m.sign(x) * erfcinv(1 - abs(x))


def erfcx(x):
    return m.exp(x * x) * m.erfc(x)


def spread(low, high):
    """Both signs, exponents from low to high."""
    return lambda r: r.choice((-1, 1)) * r.uniform(1, 2) * 2.0 ** r.randint(low, high)


def positive(low, high):
    return lambda r: r.uniform(1, 2) * 2.0 ** r.randint(low, high)


def between(low, high):
    return lambda r: r.uniform(low, high)


def near(centre, width):
    return lambda r: centre + r.choice((-1, 1)) * width * 2.0 ** -r.uniform(0, 40)


UNARY = {
    "exp": (m.exp, [between(-745, 709), spread(-40, 3)]),
    "exp2": (lambda x: mpf(2) ** x, [between(-1074, 1024), spread(-40, 3)]),
    "exp10": (lambda x: mpf(10) ** x, [between(-323, 308), spread(-40, 3)]),
    "expm1": (m.expm1, [between(-40, 709), spread(-60, 2), spread(-6, 1)]),
    "log": (m.log, [positive(-1074, 1023), positive(-2, 2), near(1, 0.5)]),
    "log2": (lambda x: m.log(x) / m.log(2), [positive(-1074, 1023), positive(-2, 2), near(1, 0.5)]),
    "log10": (lambda x: m.log(x) / m.log(10), [positive(-1074, 1023), positive(-2, 2), near(1, 0.5)]),
    "log1p": (m.log1p, [positive(-60, 1023), between(-0.999, 3), spread(-60, -1)]),
    "sin": (m.sin, [spread(-30, 1023), between(-10, 10), spread(0, 25), near(3.141592653589793, 1)]),
    "cos": (m.cos, [spread(-30, 1023), between(-10, 10), spread(0, 25), near(1.5707963267948966, 1)]),
    "tan": (m.tan, [spread(-30, 1023), between(-10, 10), spread(0, 25), near(1.5707963267948966, 1)]),
    "sinpi": (m.sinpi, [spread(-30, 51), between(-3, 3), near(1, 0.5)]),
    "cospi": (m.cospi, [spread(-30, 51), between(-3, 3), near(0.5, 0.5)]),
    "asin": (m.asin, [between(-1, 1), spread(-40, -1), near(1, 0.5)]),
    "acos": (m.acos, [between(-1, 1), spread(-40, -1), near(1, 0.5)]),
    "atan": (m.atan, [spread(-30, 60), between(-3, 3)]),
    "sinh": (m.sinh, [between(-710, 710), spread(-30, 2)]),
    "cosh": (m.cosh, [between(-710, 710), spread(-30, 2)]),
    "tanh": (m.tanh, [between(-20, 20), spread(-30, 1)]),
    "asinh": (m.asinh, [spread(-30, 1023), spread(-3, 3)]),
    "acosh": (m.acosh, [positive(0, 1023), lambda r: 1 + 2.0 ** -r.uniform(1, 50), between(1, 5)]),
    "atanh": (m.atanh, [between(-1, 1), spread(-30, -1)]),
    "cbrt": (lambda x: m.sign(x) * m.cbrt(abs(x)), [spread(-1074, 1023), positive(0, 2)]),
    "rcbrt": (lambda x: m.sign(x) / m.cbrt(abs(x)), [spread(-1074, 1023), positive(0, 2)]),
    "rsqrt": (lambda x: 1 / m.sqrt(x), [positive(-1074, 1023), positive(0, 1)]),
    "erf": (m.erf, [spread(-30, 2), between(-6, 6)]),
    "erfc": (m.erfc, [between(-6, 26.5), spread(-30, 2)]),
    "erfcx": (erfcx, [between(-26, 30), positive(0, 100), spread(-30, 2)]),
    "erfinv": (erfinv, [between(-1, 1), spread(-30, -2), near(1, 0.5)]),
    "erfcinv": (erfcinv, [between(0, 2), positive(-1022, -2), near(1, 0.5)]),
    "normcdf": (m.ncdf, [between(-37, 8), spread(-30, 2)]),
    "normcdfinv": (lambda p: -m.sqrt(2) * erfcinv(2 * p), [between(0, 1), positive(-1021, -3)]),
    "tgamma": (m.gamma, [between(0, 171.6), between(-20, 5), between(0.5, 3), spread(-30, 1)]),
    "lgamma": (lambda x: m.log(abs(m.gamma(x))) if abs(x) < 1000 else m.loggamma(x),
               [between(0, 100), positive(-30, 1000), between(0.5, 3.5)]),
    "j0": (lambda x: m.besselj(0, x), [between(0, 8), between(8, 1000)]),
    "j1": (lambda x: m.besselj(1, x), [between(0, 8), between(8, 1000)]),
    "y0": (lambda x: m.bessely(0, x), [between(0, 8), between(8, 1000)]),
    "y1": (lambda x: m.bessely(1, x), [between(0, 8), between(8, 1000)]),
}

BINARY = {
    "pow": (lambda x, y: x ** y, [(positive(-1022, 1023), spread(-4, 1)), (between(0, 10), between(-300, 300)),
                                  (near(1, 0.5), spread(0, 12))]),
    "atan2": (m.atan2, [(spread(-30, 30), spread(-30, 30)), (spread(-2, 2), spread(-2, 2))]),
    "hypot": (m.hypot, [(spread(-1000, 1000), spread(-1000, 1000)), (spread(-2, 2), spread(-2, 2))]),
}


def rows(name, f, draws, count, r):
    done = 0
    while done < count:
        draw = draws[done % len(draws)]
        x = [d(r) for d in draw] if isinstance(draw, tuple) else [draw(r)]
        try:
            value = f(*map(mpf, x))
        except (ZeroDivisionError, ValueError, OverflowError):
            continue
        if isinstance(value, m.mpc) or not m.isfinite(value):
            continue
        high = rounded(value)
        if high in (float("inf"), float("-inf")):
            continue
        done += 1
        print(name, *map(bits, x), bits(high), bits(rounded(value - mpf(high))))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    only = sys.argv[3].split(",") if len(sys.argv) > 3 else None
    for name, (f, draws) in {**UNARY, **BINARY}.items():
        if only is None or name in only:
            rows(name, f, draws, count, random.Random(f"{seed} {name}"))


main()
