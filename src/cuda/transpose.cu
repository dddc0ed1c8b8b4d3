#include <algorithm>
#include <string>

#include "cuda/elements.h"
#include "cuda/launch.h"
#include "cuda/transpose.h"
#include "rtf/error.h"

namespace rtf::cuda {
namespace {

constexpr int side = 64, lanes = 32, warps = 8;

// A block turns squares of 64 x 64 numbers over, by way of shared memory: a warp reads and writes 32 neighbours at a
// time. All that a thread reads is asked for before the first is waited for.
template <class T>
__global__ void __launch_bounds__(lanes* warps)
    transpose_kernel(const T* from, T* to, int64_t batch, int64_t rows, int64_t columns) {
  let_next_start();
  __shared__ T square[side][side + 1];  // one more: of 4 and 8 bytes, neither way meets a bank of the memory twice
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int64_t across = ceil_div(columns, side);
  const int64_t row = blockIdx.x / across * side, column = blockIdx.x % across * side;
  for (int64_t matrix = blockIdx.y; matrix < batch; matrix += gridDim.y) {
    const T* const in = from + matrix * rows * columns;
    T* const out = to + matrix * rows * columns;
    T near[side / warps][side / lanes];
#pragma unroll
    for (int i = 0; i < side / warps; ++i)
#pragma unroll
      for (int j = 0; j < side / lanes; ++j) {
        const int64_t r = row + warp + i * warps, c = column + lane + j * lanes;
        if (r < rows && c < columns) near[i][j] = in[r * columns + c];
      }
#pragma unroll
    for (int i = 0; i < side / warps; ++i)
#pragma unroll
      for (int j = 0; j < side / lanes; ++j) square[warp + i * warps][lane + j * lanes] = near[i][j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < side / warps; ++i)
#pragma unroll
      for (int j = 0; j < side / lanes; ++j) {
        const int64_t c = column + warp + i * warps, r = row + lane + j * lanes;
        if (r < rows && c < columns) out[c * rows + r] = square[lane + j * lanes][warp + i * warps];
      }
    __syncthreads();
  }
  // What comes next counts on the kernel before this one, too. One block waits for it: the others make room.
  if (blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1) wait_for_previous();
}

template <class T>
void run(const Turn& turn, cudaStream_t stream, bool beside) {
  const dim3 grid(static_cast<unsigned>(ceil_div(turn.rows, side) * ceil_div(turn.columns, side)),
                  static_cast<unsigned>(std::min<int64_t>(turn.batch, 65535)));
  launch("transpose", beside ? Start::early : Start::after, transpose_kernel<T>, grid, dim3(lanes, warps), 0, stream,
         static_cast<const T*>(turn.from), static_cast<T*>(turn.to), turn.batch, turn.rows, turn.columns);
}

}  // namespace

void transpose(const Turn& turn, cudaStream_t stream, bool beside) {
  if (turn.batch * turn.rows * turn.columns == 0) return;
  if (turn.number_bytes == 2)
    run<std::uint16_t>(turn, stream, beside);
  else if (turn.number_bytes == 4)
    run<std::uint32_t>(turn, stream, beside);
  else if (turn.number_bytes == 8)
    run<std::uint64_t>(turn, stream, beside);
  else
    throw Error(ErrorCode::unsupported, "transpose", "numbers of " + std::to_string(turn.number_bytes) + " bytes");
}

}  // namespace rtf::cuda
