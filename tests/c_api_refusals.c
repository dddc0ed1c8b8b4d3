/* Null pointers, wrong sizes, damaged files: a code and a line each. */
#include <stdint.h>
#include <stdlib.h>

#include "c_api_test.h"

static void test_bad_models(void) {
  rtf_model* model = NULL;
  REFUSED(rtf_model_load(NULL, RTF_F32, &model), RTF_ERROR_ARGUMENT, "[rtf::model_load] path is null");
  REFUSED(rtf_model_load(path_of("numbers"), RTF_F32, NULL), RTF_ERROR_ARGUMENT, "is null");
  REFUSED(rtf_model_load(path_of("none"), RTF_F32, &model), RTF_ERROR_IO, "none.safetensors");
  REFUSED(rtf_model_load("no\nsuch\tfile", RTF_F32, &model), RTF_ERROR_IO, "no");
  REFUSED(rtf_model_load_bytes(NULL, 10, RTF_F32, &model), RTF_ERROR_ARGUMENT, "bytes is null");
  REFUSED(rtf_model_load_bytes(NULL, 0, RTF_F32, &model), RTF_ERROR_FORMAT, "model bytes: truncated");
  REFUSED(rtf_model_describe(NULL, NULL), RTF_ERROR_ARGUMENT, "model is null");
  REFUSED(rtf_model_describe_layer(NULL, 0, NULL), RTF_ERROR_ARGUMENT, "model is null");

  size_t size = 0;
  unsigned char* bytes = read_whole(path_of("numbers"), &size);
  for (size_t cut = 0; cut < size; cut += 1 + cut / 10)
    REFUSED(rtf_model_load_bytes(bytes, cut, RTF_F32, &model), RTF_ERROR_FORMAT, "model bytes: ");
  bytes[size - 1] ^= 1;
  REFUSED(rtf_model_load_bytes(bytes, size, RTF_F32, &model), RTF_ERROR_FORMAT, "damaged");
  free(bytes);
  CHECK(model == NULL);

  model = load("numbers", RTF_F32);
  REFUSED(rtf_model_describe(model, NULL), RTF_ERROR_ARGUMENT, "info is null");
  REFUSED(rtf_model_describe_layer(model, 0, NULL), RTF_ERROR_ARGUMENT, "info is null");
  rtf_streams* streams = NULL;
  REFUSED(rtf_stream_new(NULL, 1, &streams), RTF_ERROR_ARGUMENT, "model is null");
  REFUSED(rtf_stream_new(model, 1, NULL), RTF_ERROR_ARGUMENT, "is null");
  REFUSED(rtf_stream_new(model, 0, &streams), RTF_ERROR_ARGUMENT, "a capacity of 0");
  REFUSED(rtf_stream_new(model, SIZE_MAX, &streams), RTF_ERROR_MEMORY, "not enough memory");
  CHECK(streams == NULL);
  rtf_model_free(model);
  model = load("both_directions", RTF_F32);
  REFUSED(rtf_stream_new(model, 1, &streams), RTF_ERROR_UNSUPPORTED, "bidirectional");
  rtf_model_free(model);
  rtf_model_free(NULL);
  rtf_stream_free(NULL);
  rtf_sequences_free(NULL);
  rtf_filter_free(NULL);
}

static void test_bad_calls(void) {
  float in[4 * inputs] = {0}, out[4 * outputs];
  double wide[4] = {0};
  const int64_t tokens[4] = {0};
  size_t number = 0;
  int flag = 0;
  const rtf_layout from = rtf_channels_last(1, 2, inputs), to = rtf_channels_last(1, 2, outputs);
  const rtf_layout longer = rtf_channels_last(1, 3, outputs), narrow = rtf_channels_last(1, 2, 1);

  const char* null = "streams is null";
  REFUSED(rtf_stream_capacity(NULL, &number), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_size(NULL, &number), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_joined(NULL, 0, &flag), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_join(NULL, &number), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_fork(NULL, 0, &number), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_leave(NULL, 0), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_reset(NULL, 0), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_step_f32(NULL, NULL, 1, in, inputs, out, outputs), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_step_f64(NULL, NULL, 1, wide, inputs, wide, outputs), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_step_tokens_f32(NULL, NULL, 1, tokens, 1, out, outputs), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_step_tokens_f64(NULL, NULL, 1, tokens, 1, wide, outputs), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_process_f32(NULL, NULL, 1, in, &from, out, &to), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_process_f64(NULL, NULL, 1, wide, &from, wide, &to), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_process_tokens_f32(NULL, NULL, 1, tokens, &from, out, &to), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_process_tokens_f64(NULL, NULL, 1, tokens, &from, wide, &to), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_prefill_f32(NULL, NULL, 1, in, &from), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_prefill_f64(NULL, NULL, 1, wide, &from), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_prefill_tokens(NULL, NULL, 1, tokens, &from), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_answer_f32(NULL, 0, out, outputs), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_answer_f64(NULL, 0, wide, outputs), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_answer_pair_f32(NULL, 0, 1, out, outputs), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_answer_pair_f64(NULL, 0, 1, wide, outputs), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_swap(NULL, NULL, 0), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_save(NULL, 0, in, 1), RTF_ERROR_ARGUMENT, null);
  REFUSED(rtf_stream_restore(NULL, 0, in, 1), RTF_ERROR_ARGUMENT, null);

  rtf_model* model = load("numbers", RTF_F32);
  rtf_streams* streams = streams_of(model, 2, 2);
  REFUSED(rtf_stream_capacity(streams, NULL), RTF_ERROR_ARGUMENT, "capacity is null");
  REFUSED(rtf_stream_size(streams, NULL), RTF_ERROR_ARGUMENT, "size is null");
  REFUSED(rtf_stream_joined(streams, 0, NULL), RTF_ERROR_ARGUMENT, "joined is null");
  REFUSED(rtf_stream_join(streams, NULL), RTF_ERROR_ARGUMENT, "stream is null");
  REFUSED(rtf_stream_fork(streams, 0, NULL), RTF_ERROR_ARGUMENT, "other is null");
  REFUSED(rtf_stream_leave(streams, 2), RTF_ERROR_ARGUMENT, "stream 2; there are streams 0 to 1");
  REFUSED(rtf_stream_reset(streams, SIZE_MAX), RTF_ERROR_ARGUMENT, "there are streams 0 to 1");
  REFUSED(rtf_stream_step_f32(streams, NULL, 1, NULL, inputs, out, outputs), RTF_ERROR_ARGUMENT, "in is null");
  REFUSED(rtf_stream_step_f32(streams, NULL, 1, in, inputs, NULL, outputs), RTF_ERROR_ARGUMENT, "out is null");
  REFUSED(rtf_stream_step_f32(streams, NULL, 1, in, 1, out, outputs), RTF_ERROR_ARGUMENT,
          "in has 1 values; 2 are needed");
  REFUSED(rtf_stream_step_f32(streams, NULL, 1, in, inputs, out, 2), RTF_ERROR_ARGUMENT,
          "out has 2 values; 3 are needed");
  REFUSED(rtf_stream_step_f32(streams, NULL, 3, in, 3 * inputs, out, 3 * outputs), RTF_ERROR_ARGUMENT,
          "3 streams; there are 2");
  const size_t twice[] = {1, 1}, far[] = {9};
  REFUSED(rtf_stream_step_f32(streams, twice, 2, in, 2 * inputs, out, 2 * outputs), RTF_ERROR_ARGUMENT,
          "stream 1 is named twice");
  REFUSED(rtf_stream_step_f32(streams, far, 1, in, inputs, out, outputs), RTF_ERROR_ARGUMENT, "stream 9");
  REFUSED(rtf_stream_process_f32(streams, NULL, 1, in, NULL, out, &to), RTF_ERROR_ARGUMENT, "in has no layout");
  REFUSED(rtf_stream_process_f32(streams, NULL, 1, NULL, &from, out, &to), RTF_ERROR_ARGUMENT, "in is null");
  REFUSED(rtf_stream_process_f32(streams, NULL, 1, in, &from, NULL, NULL), RTF_ERROR_ARGUMENT,
          "out has shape (0, 0, 0)");
  REFUSED(rtf_stream_process_f32(streams, NULL, 1, in, &from, out, &longer), RTF_ERROR_ARGUMENT,
          "out has shape (1, 3, 3); (1, 2, 3) is needed");
  REFUSED(rtf_stream_process_f32(streams, NULL, 2, in, &from, out, &to), RTF_ERROR_ARGUMENT, "in has shape (1, 2, 2)");
  REFUSED(rtf_stream_prefill_f32(streams, NULL, 1, in, &narrow), RTF_ERROR_ARGUMENT, "in has shape (1, 2, 1)");
  REFUSED(rtf_stream_prefill_tokens(streams, NULL, 1, tokens, &narrow), RTF_ERROR_ARGUMENT, "not tokens");
  OK(rtf_stream_prefill_f32(streams, NULL, 0, NULL, &(rtf_layout){.channels = inputs}));
  rtf_stream_free(streams);
  rtf_model_free(model);
}

void test_refusals(void) {
  test_bad_models();
  test_bad_calls();
}
