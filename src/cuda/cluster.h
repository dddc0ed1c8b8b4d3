// Blocks of a cluster, which run at one time and reach each other's shared memory (compute capability 9.0 and later).
#pragma once

#include <cuda_runtime.h>

namespace rtf::cuda {

__device__ __forceinline__ int cluster_rank() {
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return static_cast<int>(rank);
}

// A barrier in two halves: what threads of the cluster do before they arrive is done for those that have waited.
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The shared memory of another block, where this one has `mine`.
class Remote {
 public:
  __device__ __forceinline__ Remote(const float2* mine, int rank) {
#if __CUDA_ARCH__ >= 900
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(mine));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address_) : "r"(address), "r"(rank));
#endif
  }
  __device__ __forceinline__ float2 load(int index) const {
    float2 value = {};
#if __CUDA_ARCH__ >= 900
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                 : "=f"(value.x), "=f"(value.y)
                 : "r"(address_ + index * 8)
                 : "memory");
#endif
    return value;
  }
  __device__ __forceinline__ void store(int index, float2 value) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};"
                 :
                 : "r"(address_ + index * 8), "f"(value.x), "f"(value.y)
                 : "memory");
#endif
  }

 private:
  unsigned address_ = 0;
};

}  // namespace rtf::cuda
