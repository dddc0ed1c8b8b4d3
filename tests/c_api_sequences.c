/* Whole sequences, of models of either kind. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "c_api_test.h"

void test_sequences(void) {
  float in[samples * inputs], wanted[samples * outputs], out[samples * outputs], planar[samples * outputs];
  make_samples(in, samples * inputs);
  const rtf_layout from = rtf_channels_last(1, samples, inputs), to = rtf_channels_last(1, samples, outputs);
  const rtf_layout planes = rtf_length_last(1, outputs, samples), one = rtf_channels_last(1, 1, outputs);
  const int64_t token = 0;
  double wide[4] = {0};

  rtf_model* model = load("numbers", RTF_F32);
  rtf_sequences* sequences = NULL;
  whole(model, in, wanted);
  REFUSED(rtf_sequences_new(NULL, samples, &sequences), RTF_ERROR_ARGUMENT, "model is null");
  REFUSED(rtf_sequences_new(model, samples, NULL), RTF_ERROR_ARGUMENT, "is null");
  REFUSED(rtf_sequences_new(model, 0, &sequences), RTF_ERROR_ARGUMENT, "up to 0 samples");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their allocators end the program instead */
  /* Sizes whose bytes wrap around must not pass as small ones. */
  const size_t huge[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 64 + 1, SIZE_MAX / 192 + 1, (size_t)1 << 60};
  for (size_t i = 0; i < sizeof huge / sizeof *huge; ++i) {
    rtf_streams* streams = NULL;
    REFUSED(rtf_sequences_new(model, huge[i], &sequences), RTF_ERROR_MEMORY, "not enough memory");
    REFUSED(rtf_stream_new(model, huge[i], &streams), RTF_ERROR_MEMORY, "not enough memory");
  }
#endif
  OK(rtf_sequences_new(model, samples, &sequences));
  rtf_model_free(model);
  OK(rtf_sequences_process_f32(sequences, in, &from, out, &to));
  double largest = 0;
  for (size_t i = 0; i < samples * outputs; ++i) largest = fmax(largest, fabs(wanted[i]));
  for (size_t i = 0; i < samples * outputs; ++i) CHECK(fabs(out[i] - wanted[i]) <= 1e-4 * largest);
  OK(rtf_sequences_process_f32(sequences, in, &from, planar, &planes));
  for (size_t t = 0; t < samples; ++t)
    for (size_t o = 0; o < outputs; ++o) CHECK(planar[o * samples + t] == out[t * outputs + o]);
  const rtf_layout longer = rtf_channels_last(1, samples + 1, inputs);
  REFUSED(rtf_sequences_process_f32(sequences, in, &longer, out, &to), RTF_ERROR_ARGUMENT, "a length of 201");
  REFUSED(rtf_sequences_process_f32(sequences, in, &from, out, &one), RTF_ERROR_ARGUMENT, "out has shape (1, 1, 3)");
  REFUSED(rtf_sequences_process_f32(sequences, NULL, &from, out, &to), RTF_ERROR_ARGUMENT, "in is null");
  REFUSED(rtf_sequences_process_f32(NULL, in, &from, out, &to), RTF_ERROR_ARGUMENT, "sequences is null");
  REFUSED(rtf_sequences_process_f64(sequences, wide, &one, wide, &one), RTF_ERROR_ARGUMENT, "loaded as f32");
  REFUSED(rtf_sequences_process_tokens_f32(sequences, &token, &one, out, &to), RTF_ERROR_ARGUMENT, "not tokens");
  REFUSED(rtf_sequences_process_tokens_f64(sequences, &token, &one, wide, &one), RTF_ERROR_ARGUMENT, "loaded as f32");
  rtf_sequences_free(sequences);

  /* A bidirectional model hears what is to come. */
  model = load("both_directions", RTF_F32);
  rtf_model_info info;
  OK(rtf_model_describe(model, &info));
  CHECK(info.bidirectional == 1);
  OK(rtf_sequences_new(model, samples, &sequences));
  OK(rtf_sequences_process_f32(sequences, in, &from, out, &to));
  in[2 * inputs] += 1;
  OK(rtf_sequences_process_f32(sequences, in, &from, wanted, &to));
  CHECK(memcmp(out, wanted, outputs * sizeof *out) != 0);
  rtf_sequences_free(sequences);
  rtf_model_free(model);
}
