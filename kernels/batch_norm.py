"""Batch normalization of weighted rows, and a ReLU of the result.

Rows are summed in runs, whose sums are combined in double precision. One launch does all steps on
one thread, or one launch for each step several threads: ``steps`` is the sum of those to do.

The output is at least ``floor``: zero with a ReLU, else minus infinity. What is applied to each row
is kept in ``by``, with rows for mean, factor, offset, one over the standard deviation, and
variance.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import kernel, named

# Rows of a partial sum.
RUN = 256
# Sums over runs of rows, their combination, and what is applied to each row.
SUM, COMBINE, APPLY = 1, 2, 4
STEPS = SUM, COMBINE, APPLY


@cache
def make(dtype: type) -> SimpleNamespace:
    module = named("batch_norm", dtype)
    Row16, Row4, Row1 = rows.types(dtype)
    run, sums, combines, applies = RUN, SUM, COMBINE, APPLY
    moments16, moments4, moments1 = rows.per_block(dtype, _moments)
    apply16, apply4, apply1 = rows.per_block(dtype, _apply)
    product16, product4, product1 = rows.per_block(dtype, _sum_products)
    adjoint16, adjoint4, adjoint1 = rows.per_block(dtype, _adjoint)
    combine_moments, combine_products = _combine_moments(dtype), _combine_products(dtype)

    @wp.func
    def sum_mass(mass: wp.array1d(dtype=dtype), first: int, last: int):
        total = dtype(0.0)
        for i in range(first, last):
            total += mass[i]
        return total

    @kernel(module)
    def normalize(
        start: int,
        steps: int,
        runs: int,  # of a thread
        mass: wp.array1d(dtype=dtype),  # [M]
        x16: wp.array2d(dtype=Row16),  # [M, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        weight: wp.array1d(dtype=dtype),  # [C]
        bias: wp.array1d(dtype=dtype),  # [C]
        eps: dtype,
        floor: dtype,
        total: wp.array1d(dtype=dtype),  # [all runs], out: masses
        partial: wp.array2d(dtype=dtype),  # [2 all runs, C], out: moments, given twice
        partial16: wp.array2d(dtype=Row16),
        partial4: wp.array2d(dtype=Row4),
        partial1: wp.array2d(dtype=Row1),
        by: wp.array2d(dtype=dtype),  # [5, C], out, given twice
        by16: wp.array2d(dtype=Row16),
        by4: wp.array2d(dtype=Row4),
        by1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """``(x - mean) * factor + offset``. A thread owns ``runs`` runs; one thread combines."""
        first = (wp.tid() + start) * runs
        end = wp.min(total.shape[0], first + runs)
        if steps & sums:
            for r in range(first, end):
                last = wp.min(out1.shape[0], (r + 1) * run)
                all = sum_mass(mass, r * run, last)
                total[r] = all
                moments16(mass, x16, all, r, r * run, last, partial16)
                moments4(mass, x4, all, r, r * run, last, partial4)
                moments1(mass, x1, all, r, r * run, last, partial1)
        if steps & combines:
            combine_moments(total, partial, weight, bias, eps, by)
        if steps & applies:
            for r in range(first, end):
                last = wp.min(out1.shape[0], (r + 1) * run)
                apply16(x16, by16, floor, r * run, last, out16)
                apply4(x4, by4, floor, r * run, last, out4)
                apply1(x1, by1, floor, r * run, last, out1)

    @kernel(module)
    def backward(
        start: int,
        steps: int,
        runs: int,  # of a thread
        mass: wp.array1d(dtype=dtype),  # [M]
        total: wp.array1d(dtype=dtype),  # [all runs]
        x16: wp.array2d(dtype=Row16),  # [M, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        floor: dtype,
        by: wp.array2d(dtype=dtype),  # [5, C], given twice
        by16: wp.array2d(dtype=Row16),
        by4: wp.array2d(dtype=Row4),
        by1: wp.array2d(dtype=Row1),
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        partial: wp.array2d(dtype=dtype),  # [2 all runs, C], out: products, given twice
        partial16: wp.array2d(dtype=Row16),
        partial4: wp.array2d(dtype=Row4),
        partial1: wp.array2d(dtype=Row1),
        back: wp.array2d(dtype=dtype),  # [4, C], out, given twice
        back16: wp.array2d(dtype=Row16),
        back4: wp.array2d(dtype=Row4),
        back1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """``grad * factor - mass * (constant + slope * (x - mean))``, and in ``back`` that
        constant and slope and the gradients of weight and bias. A thread owns ``runs`` runs; one
        thread combines."""
        first = (wp.tid() + start) * runs
        end = wp.min(total.shape[0], first + runs)
        if steps & sums:
            for r in range(first, end):
                last = wp.min(out1.shape[0], (r + 1) * run)
                product16(x16, by16, grad16, floor, r, r * run, last, partial16)
                product4(x4, by4, grad4, floor, r, r * run, last, partial4)
                product1(x1, by1, grad1, floor, r, r * run, last, partial1)
        if steps & combines:
            combine_products(total, partial, by, back)
        if steps & applies:
            for r in range(first, end):
                last = wp.min(out1.shape[0], (r + 1) * run)
                adjoint16(mass, x16, by16, back16, grad16, floor, r * run, last, out16)
                adjoint4(mass, x4, by4, back4, grad4, floor, r * run, last, out4)
                adjoint1(mass, x1, by1, back1, grad1, floor, r * run, last, out1)

    return SimpleNamespace(module=module, normalize=normalize, backward=backward)


def _combine_moments(dtype: type) -> wp.Function:
    zero, one = wp.float64(0.0), wp.float64(1.0)

    @wp.func
    def combine_moments(
        total: wp.array1d(dtype=dtype),
        partial: wp.array2d(dtype=dtype),
        weight: wp.array1d(dtype=dtype),
        bias: wp.array1d(dtype=dtype),
        eps: dtype,
        by: wp.array2d(dtype=dtype),
    ):
        mass = wp.float64(0.0)
        for r in range(total.shape[0]):
            mass += wp.float64(total[r])
        divisor = wp.where(mass > zero, mass, one)
        for c in range(by.shape[1]):
            mean = wp.float64(0.0)
            for r in range(total.shape[0]):
                mean += wp.float64(total[r]) * wp.float64(partial[2 * r, c])
            mean = mean / divisor
            square = wp.float64(0.0)
            for r in range(total.shape[0]):
                # The squares about the mean of all rows follow from those about a run's own mean.
                apart = wp.float64(partial[2 * r, c]) - mean
                square += wp.float64(partial[2 * r + 1, c]) + wp.float64(total[r]) * apart * apart
            var = square / divisor
            scale = one / wp.sqrt(var + wp.float64(eps))
            by[0, c] = dtype(mean)
            by[1, c] = dtype(scale * wp.float64(weight[c]))
            by[2, c] = bias[c]
            by[3, c] = dtype(scale)
            by[4, c] = dtype(var)

    return combine_moments


def _combine_products(dtype: type) -> wp.Function:
    zero, one = wp.float64(0.0), wp.float64(1.0)

    @wp.func
    def combine_products(
        total: wp.array1d(dtype=dtype),
        partial: wp.array2d(dtype=dtype),
        by: wp.array2d(dtype=dtype),
        back: wp.array2d(dtype=dtype),
    ):
        mass = wp.float64(0.0)
        for r in range(total.shape[0]):
            mass += wp.float64(total[r])
        divisor = wp.where(mass > zero, mass, one)
        for c in range(by.shape[1]):
            plain = wp.float64(0.0)
            weighted = wp.float64(0.0)
            for r in range(total.shape[0]):
                plain += wp.float64(partial[2 * r, c])
                weighted += wp.float64(partial[2 * r + 1, c])
            scale = wp.float64(by[3, c])
            share = wp.float64(by[1, c]) / divisor
            back[0, c] = dtype(share * plain)
            back[1, c] = dtype(share * weighted * scale * scale)
            back[2, c] = dtype(weighted * scale)
            back[3, c] = dtype(plain)

    return combine_products


def _moments(Row: type) -> wp.Function:
    Scalar = Row._wp_scalar_type_

    @wp.func
    def moments(
        mass: wp.array1d(dtype=Scalar),
        x: wp.array2d(dtype=Row),
        sum_mass: Scalar,
        r: int,
        first: int,
        last: int,
        out: wp.array2d(dtype=Row),
    ):
        for b in range(out.shape[1]):
            mean = Row()
            for i in range(first, last):
                mean += mass[i] * x[i, b]
            if sum_mass > Scalar(0.0):
                mean = mean / sum_mass
            square = Row()
            for i in range(first, last):
                apart = x[i, b] - mean
                square += mass[i] * wp.cw_mul(apart, apart)
            out[2 * r, b] = mean
            out[2 * r + 1, b] = square

    return moments


def _apply(Row: type) -> wp.Function:
    Scalar, length = Row._wp_scalar_type_, Row._length_

    @wp.func
    def apply_rows(
        x: wp.array2d(dtype=Row),
        by: wp.array2d(dtype=Row),
        floor: Scalar,
        first: int,
        last: int,
        out: wp.array2d(dtype=Row),
    ):
        for b in range(out.shape[1]):
            mean = by[0, b]
            factor = by[1, b]
            offset = by[2, b]
            for i in range(first, last):
                row = wp.cw_mul(x[i, b] - mean, factor) + offset
                for c in range(length):
                    # NaN stays.
                    row[c] = wp.where(row[c] <= floor, floor, row[c])
                out[i, b] = row

    return apply_rows


def _masked(Row: type) -> wp.Function:
    Scalar, length = Row._wp_scalar_type_, Row._length_
    zero = Scalar(0.0)

    @wp.func
    def masked(grad: Row, apart: Row, factor: Row, offset: Row, floor: Scalar):
        """Return ``grad`` where the output is above ``floor``."""
        out = wp.cw_mul(apart, factor) + offset
        for c in range(length):
            out[c] = wp.where(out[c] <= floor, zero, grad[c])
        return out

    return masked


def _sum_products(Row: type) -> wp.Function:
    Scalar, masked = Row._wp_scalar_type_, _masked(Row)

    @wp.func
    def sum_products(
        x: wp.array2d(dtype=Row),
        by: wp.array2d(dtype=Row),
        grad: wp.array2d(dtype=Row),
        floor: Scalar,
        r: int,
        first: int,
        last: int,
        out: wp.array2d(dtype=Row),
    ):
        for b in range(out.shape[1]):
            mean = by[0, b]
            factor = by[1, b]
            offset = by[2, b]
            total = Row()
            weighted = Row()
            for i in range(first, last):
                apart = x[i, b] - mean
                each = masked(grad[i, b], apart, factor, offset, floor)
                total += each
                weighted += wp.cw_mul(each, apart)
            out[2 * r, b] = total
            out[2 * r + 1, b] = weighted

    return sum_products


def _adjoint(Row: type) -> wp.Function:
    Scalar, masked = Row._wp_scalar_type_, _masked(Row)

    @wp.func
    def adjoint_rows(
        mass: wp.array1d(dtype=Scalar),
        x: wp.array2d(dtype=Row),
        by: wp.array2d(dtype=Row),
        back: wp.array2d(dtype=Row),
        grad: wp.array2d(dtype=Row),
        floor: Scalar,
        first: int,
        last: int,
        out: wp.array2d(dtype=Row),
    ):
        for b in range(out.shape[1]):
            mean = by[0, b]
            factor = by[1, b]
            offset = by[2, b]
            step = back[0, b]
            slope = back[1, b]
            for i in range(first, last):
                apart = x[i, b] - mean
                each = masked(grad[i, b], apart, factor, offset, floor)
                out[i, b] = wp.cw_mul(each, factor) - mass[i] * (step + wp.cw_mul(apart, slope))

    return adjoint_rows
