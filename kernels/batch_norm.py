"""Batch normalization of weighted rows: sums over runs of rows, and what is applied to each row."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import kernel, named

# Rows of a partial sum.
RUN = 256


@cache
def make(dtype: type) -> SimpleNamespace:
    module = named("batch_norm", dtype)
    Row16, Row4, Row1 = rows.types(dtype)
    run = RUN
    moments16, moments4, moments1 = rows.per_block(dtype, _moments)
    apply16, apply4, apply1 = rows.per_block(dtype, _apply)
    product16, product4, product1 = rows.per_block(dtype, _sum_products)
    adjoint16, adjoint4, adjoint1 = rows.per_block(dtype, _adjoint)

    @kernel(module)
    def moments(
        start: int,
        mass: wp.array1d(dtype=dtype),  # [M]
        x16: wp.array2d(dtype=Row16),  # [M, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        total: wp.array1d(dtype=dtype),  # [runs], out: masses
        out16: wp.array2d(dtype=Row16),  # [2 runs, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Mass of a run of rows, their mean, and the sum of the squares about it. A thread owns a
        run."""
        r = wp.tid() + start
        last = r * run + wp.min(run, mass.shape[0] - r * run)
        sum_mass = dtype(0.0)
        for i in range(r * run, last):
            sum_mass += mass[i]
        total[r] = sum_mass
        moments16(mass, x16, sum_mass, r, r * run, last, out16)
        moments4(mass, x4, sum_mass, r, r * run, last, out4)
        moments1(mass, x1, sum_mass, r, r * run, last, out1)

    @kernel(module)
    def apply(
        start: int,
        x16: wp.array2d(dtype=Row16),  # [M, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        by16: wp.array2d(dtype=Row16),  # [3, C]: mean, factor, offset
        by4: wp.array2d(dtype=Row4),
        by1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """``(x - mean) * factor + offset``. A thread owns a row."""
        i = wp.tid() + start
        apply16(x16, by16, i, out16)
        apply4(x4, by4, i, out4)
        apply1(x1, by1, i, out1)

    @kernel(module)
    def products(
        start: int,
        x16: wp.array2d(dtype=Row16),  # [M, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        mean16: wp.array2d(dtype=Row16),  # [1, C]
        mean4: wp.array2d(dtype=Row4),
        mean1: wp.array2d(dtype=Row1),
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [2 runs, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Sums of ``grad`` and of ``grad * (x - mean)``, in two rows. A thread owns a run."""
        r = wp.tid() + start
        last = r * run + wp.min(run, grad1.shape[0] - r * run)
        product16(x16, mean16, grad16, r, r * run, last, out16)
        product4(x4, mean4, grad4, r, r * run, last, out4)
        product1(x1, mean1, grad1, r, r * run, last, out1)

    @kernel(module)
    def adjoint(
        start: int,
        mass: wp.array1d(dtype=dtype),  # [M]
        x16: wp.array2d(dtype=Row16),  # [M, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        by16: wp.array2d(dtype=Row16),  # [4, C]: mean, factor, and two factors of the mass
        by4: wp.array2d(dtype=Row4),
        by1: wp.array2d(dtype=Row1),
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """``grad * factor - mass * (first + second * (x - mean))``. A thread owns a row."""
        i = wp.tid() + start
        adjoint16(mass, x16, by16, grad16, i, out16)
        adjoint4(mass, x4, by4, grad4, i, out4)
        adjoint1(mass, x1, by1, grad1, i, out1)

    return SimpleNamespace(
        module=module,
        moments=moments,
        apply=apply,
        products=products,
        adjoint=adjoint,
    )


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
    @wp.func
    def apply_row(
        x: wp.array2d(dtype=Row), by: wp.array2d(dtype=Row), i: int, out: wp.array2d(dtype=Row)
    ):
        for b in range(out.shape[1]):
            out[i, b] = wp.cw_mul(x[i, b] - by[0, b], by[1, b]) + by[2, b]

    return apply_row


def _sum_products(Row: type) -> wp.Function:
    @wp.func
    def sum_products(
        x: wp.array2d(dtype=Row),
        mean: wp.array2d(dtype=Row),
        grad: wp.array2d(dtype=Row),
        r: int,
        first: int,
        last: int,
        out: wp.array2d(dtype=Row),
    ):
        for b in range(out.shape[1]):
            total = Row()
            weighted = Row()
            for i in range(first, last):
                each = grad[i, b]
                total += each
                weighted += wp.cw_mul(each, x[i, b] - mean[0, b])
            out[2 * r, b] = total
            out[2 * r + 1, b] = weighted

    return sum_products


def _adjoint(Row: type) -> wp.Function:
    @wp.func
    def adjoint_row(
        mass: wp.array1d(dtype=Row._wp_scalar_type_),
        x: wp.array2d(dtype=Row),
        by: wp.array2d(dtype=Row),
        grad: wp.array2d(dtype=Row),
        i: int,
        out: wp.array2d(dtype=Row),
    ):
        for b in range(out.shape[1]):
            back = by[2, b] + wp.cw_mul(x[i, b] - by[0, b], by[3, b])
            out[i, b] = wp.cw_mul(grad[i, b], by[1, b]) - mass[i] * back

    return adjoint_row
