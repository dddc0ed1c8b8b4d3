// A stable filter in place of one whose poles training has driven outside the circle.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rtf/conversion.h"
#include "rtf/executor.h"
#include "rtf/transfer_function.h"

namespace rtf {

enum class StabilizeMethod {
  reflect,  // poles outside become 1 / conj(p), and |H| stays as it is on the whole circle; the phase changes
  refit,    // stable denominators of the same order fitted to the kernel; never worse than reflect in l2
  montel,   // denominators scaled onto sum |a| <= 0.999 (montel_norm), numerators fitted to the kernel
};

inline constexpr double montel_norm = 0.999;

inline constexpr std::size_t magnitude_points = 1024;
inline constexpr double magnitude_floor = 1e-6;

template <class Value>
struct Stabilized {
  Value value;                        // denominators that needed no change, and their channels, are as they were
  std::vector<double> error;          // (channels): |kernel - new kernel| / |kernel| in l2 over the length
  std::vector<double> reflect_error;  // what reflect leaves; infinite where a pole on the circle cannot be reflected
  // (channels), of reflect alone: what rounding leaves of |H| as it was, max ||H'| / |H| - 1| on so many frequencies,
  // where |H| is above a share of its largest value there.
  std::vector<double> magnitude_change;
};

// The kernel is the exact response over `length` samples.
Stabilized<TransferFunction> stabilize(const TransferFunction& tf, StabilizeMethod method, std::size_t length,
                                       Executor& executor = default_executor());

// The kernel is Algorithm 1's at the trained length, to which the result is trained again. What reflect keeps is the
// magnitude of the trained b~ / A + h0, whose samples are that kernel's spectrum.
Stabilized<TrainedTransferFunction> stabilize(const TrainedTransferFunction& trained, StabilizeMethod method,
                                              Executor& executor = default_executor());

// What the command and Python compare kernels of a plain filter over, unless told otherwise.
inline constexpr std::size_t usual_kernel_length = 1000;

// Whether a channel is a product of factors: zpk with h0 = 0, or sos.
bool has_own_poles(const System& channel);
// reflect for such channels, whose coefficients doubles may not hold: the poles of the form itself are
// mirrored, so that |H| is kept to the rounding of each of them. The kernels are those of the form.
Stabilized<std::vector<System>> reflect(std::span<const System> channels, std::size_t length);

}  // namespace rtf
