// Products of small matrices in double on the tensor cores, one warp each: c (16, 8) += a (16, depth) b (depth, 8).
//
// Thread (row, column) = (lane / 4, lane % 4) of the warp holds
//   c[j]: row `row` (j < 2) or `row + 8`, column 2 column + j % 2;
//   a[j]: row `row` (j even) or `row + 8`, depth column + 4 (j / 2);
//   b[j]: depth column + 4 j, column `row`.
// Which index of a sum stands at which depth is the caller's choice, the same for a and b.
#pragma once

namespace rtf::cuda {

template <int depth>
__device__ inline void multiply_add(double (&c)[4], const double* a, const double* b) {
  static_assert(depth == 8 || depth == 16);
#if __CUDA_ARCH__ >= 900
  if constexpr (depth == 16)
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
        "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
          "d"(b[2]), "d"(b[3]));
  else
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (int j = 0; j < depth / 4; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
          : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
          : "d"(a[2 * j + half]), "d"(b[j]));
#endif
}

}  // namespace rtf::cuda
