// Memory of tensors that comes back with every step.
#pragma once

namespace rtf::train {

// From now on torch's large CPU tensors take the memory of freed ones of about their size, on huge pages where the
// system has them. The system's own allocator maps and clears fresh pages for each: a fifth of a training step.
void cache_tensor_memory();

}  // namespace rtf::train
