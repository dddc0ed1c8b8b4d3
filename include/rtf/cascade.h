// Channels as sections in a row: doubles hold the factors of a narrow filter where they do not hold its coefficients.
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "rtf/conversion.h"
#include "rtf/filter.h"

namespace rtf {

struct Cascade {
  std::vector<TransferFunction> stages;  // at least one, each of all channels; a signal passes them in this order
  std::vector<double> beside;            // (channels): what the input is multiplied by and added to the output

  std::size_t channels() const { return beside.size(); }
  std::size_t order() const;  // of all stages together
};

// One stage.
Cascade to_cascade(TransferFunction tf);
// A stage for each section, of sos in its own order and of zpk in that of to_sections(); h0 of a zpk goes beside them.
// Throws for channels of another form.
Cascade to_cascade(std::span<const System> channels);

bool is_stable(const Cascade& cascade, std::size_t channel);

// As those of a transfer function in rtf/response.h: the product of the stages and what is beside it.
std::vector<std::complex<double>> frequency_response(const Cascade& cascade, std::span<const double> angles);
std::vector<double> group_delay(const Cascade& cascade, std::span<const double> angles);
// Of one channel in any form: of zpk from its poles and zeros, whose sections, rounded, do not hold slow ones; else
// from its sections.
std::vector<std::complex<double>> frequency_response(const System& channel, std::span<const double> angles);
std::vector<double> group_delay(const System& channel, std::span<const double> angles);

// A FilterPlan for every stage. Several stages run as recurrences unless told otherwise: the rounding of a transform is
// that of its largest sample, and stages that follow may amplify it. For the same reason T should be double then.
template <class T>
class CascadePlan {
 public:
  CascadePlan(const Cascade& cascade, std::size_t batch, std::size_t length, FilterOptions options = {});

  std::string method() const;  // of the stages, and how many there are when several
  // The largest error over the largest output, as far as an impulse and noise through the plan show it against 106
  // bits; noise of another draw may lose four times more. 0 where rounding cannot reach the tolerance of T.
  double rounding_estimate() const;
  std::string warning() const;  // not empty when that estimate is past the tolerance
  std::size_t workspace_bytes(const Executor& executor) const;

  std::size_t batch, length, channels, order;
  std::vector<FilterPlan<T>> stages;
  std::vector<double> beside;

 private:
  Cascade cascade_;
};

// Filters `samples` in place. States have shape (batch, channels, order), those of the stages one after the other;
// empty spans mean zero, or not wanted, and the two may be one array.
template <class T>
void filter(const CascadePlan<T>& plan, Signal<T> samples, std::span<const double> initial_state,
            std::span<double> final_state, std::span<std::byte> workspace, Executor& executor);

}  // namespace rtf
