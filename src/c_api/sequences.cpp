#include <variant>

#include "c_api/border.h"
#include "c_api/model.h"
#include "c_api/samples.h"
#include "rtf/stream.h"

struct rtf_sequences {
  std::variant<rtf::stream::Sequences<float>, rtf::stream::Sequences<double>> sequences;
};

namespace rtf::c_api {
namespace {

template <class T, class In>
rtf_status process(rtf_sequences* handle, const In* in, const rtf_layout* in_layout, T* out,
                   const rtf_layout* out_layout) noexcept {
  constexpr const char* operation = "stream::Sequences";
  return guarded(operation, [&] {
    auto& sequences = of_precision<T>(operation, required(operation, "sequences", handle).sequences);
    sequences.process(signal_of(operation, input_name<In>, in, in_layout),
                      signal_of(operation, "out", out, out_layout));
  });
}

}  // namespace
}  // namespace rtf::c_api

using namespace rtf;
using namespace rtf::c_api;

extern "C" {

rtf_status rtf_sequences_new(const rtf_model* model, size_t longest, rtf_sequences** sequences) {
  constexpr const char* operation = "stream::Sequences";
  return make_handle(operation, sequences, [&] {
    return std::visit(
        [&]<class T>(const stream::Model<T>& m) { return rtf_sequences{stream::Sequences<T>(m, longest)}; },
        required(operation, "model", model).model);
  });
}

void rtf_sequences_free(rtf_sequences* sequences) { delete sequences; }

rtf_status rtf_sequences_process_f32(rtf_sequences* sequences, const float* in, const rtf_layout* in_layout, float* out,
                                     const rtf_layout* out_layout) {
  return process(sequences, in, in_layout, out, out_layout);
}
rtf_status rtf_sequences_process_f64(rtf_sequences* sequences, const double* in, const rtf_layout* in_layout,
                                     double* out, const rtf_layout* out_layout) {
  return process(sequences, in, in_layout, out, out_layout);
}
rtf_status rtf_sequences_process_tokens_f32(rtf_sequences* sequences, const int64_t* tokens,
                                            const rtf_layout* tokens_layout, float* out, const rtf_layout* out_layout) {
  return process(sequences, tokens, tokens_layout, out, out_layout);
}
rtf_status rtf_sequences_process_tokens_f64(rtf_sequences* sequences, const int64_t* tokens,
                                            const rtf_layout* tokens_layout, double* out,
                                            const rtf_layout* out_layout) {
  return process(sequences, tokens, tokens_layout, out, out_layout);
}
}
