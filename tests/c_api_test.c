/* rtf.h from plain C: c_api_test FOLDER, with the models of write_models.cpp in it. Here: what models answer. */
#include "c_api_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_model(void) {
  rtf_model* model = load("numbers", RTF_F32);
  rtf_model_info info;
  OK(rtf_model_describe(model, &info));
  CHECK(info.precision == RTF_F32 && info.vocabulary == 0 && info.inputs == inputs && info.outputs == outputs);
  CHECK(info.channels == 20 && info.layers == 2 && info.length == 100 && strcmp(info.decoder, "position") == 0);
  CHECK(info.weight_bytes > 0 && info.state_bytes > 0);
  for (size_t layer = 0; layer < info.layers; ++layer) {
    rtf_layer_info l;
    OK(rtf_model_describe_layer(model, layer, &l));
    CHECK(!strcmp(l.realization, "companion") || !strcmp(l.realization, "sos") || !strcmp(l.realization, "modal"));
  }
  rtf_layer_info none;
  REFUSED(rtf_model_describe_layer(model, 2, &none), RTF_ERROR_ARGUMENT, "layer 2; the model has 2");
  rtf_model_free(model);
}

static void test_cuts(void) {
  float in[samples * inputs], wanted[samples * outputs], out[samples * outputs], planar[samples * inputs];
  make_samples(in, samples * inputs);
  size_t size = 0;
  void* bytes = read_whole(path_of("numbers"), &size);
  rtf_model* model = NULL;
  OK(rtf_model_load_bytes(bytes, size, RTF_F32, &model));
  free(bytes);
  whole(model, in, wanted);
  rtf_streams* streams = streams_of(model, 2, 2);
  rtf_model_free(model); /* its streams go on */

  for (size_t t = 0; t < samples; ++t)
    OK(rtf_stream_step_f32(streams, NULL, 1, in + t * inputs, inputs, out + t * outputs, outputs));
  CHECK(memcmp(out, wanted, sizeof out) == 0);

  /* Prefill, then a planar block of which every other sample is skipped over by the strides. */
  const size_t second = 1, half = samples / 2;
  rtf_layout from = rtf_channels_last(1, half, inputs);
  OK(rtf_stream_prefill_f32(streams, &second, 1, in, &from));
  for (size_t t = 0; t < samples; ++t)
    for (size_t c = 0; c < inputs; ++c) planar[c * samples + t] = in[t * inputs + c];
  from = rtf_length_last(1, inputs, samples);
  from.length = half;
  rtf_layout to = rtf_length_last(1, outputs, half);
  OK(rtf_stream_process_f32(streams, &second, 1, planar + half, &from, out, &to));
  for (size_t t = 0; t < half; ++t)
    for (size_t o = 0; o < outputs; ++o) CHECK(out[o * half + t] == wanted[(half + t) * outputs + o]);

  /* Reset: as at the start. */
  OK(rtf_stream_reset(streams, second));
  OK(rtf_stream_step_f32(streams, &second, 1, in, inputs, out, outputs));
  CHECK(memcmp(out, wanted, outputs * sizeof *out) == 0);
  rtf_stream_free(streams);
}

static void test_state(void) {
  float in[samples * inputs], wanted[samples * outputs], out[outputs];
  make_samples(in, samples * inputs);
  rtf_model* model = load("numbers", RTF_F32);
  rtf_model_info info;
  OK(rtf_model_describe(model, &info));
  whole(model, in, wanted);
  rtf_streams* streams = streams_of(model, 3, 2);
  const size_t half = samples / 2, capacity = 3;
  const rtf_layout from = rtf_channels_last(1, half, inputs);
  OK(rtf_stream_prefill_f32(streams, NULL, 1, in, &from));
  unsigned char *saved = malloc(info.state_bytes), *again = malloc(info.state_bytes);
  OK(rtf_stream_save(streams, 0, saved, info.state_bytes));

  size_t fork = 99, size = 99, got_capacity = 99;
  OK(rtf_stream_fork(streams, 0, &fork));
  CHECK(fork == 2);
  OK(rtf_stream_size(streams, &size));
  OK(rtf_stream_capacity(streams, &got_capacity));
  CHECK(size == 3 && got_capacity == capacity);
  OK(rtf_stream_restore(streams, 1, saved, info.state_bytes));
  OK(rtf_stream_save(streams, 1, again, info.state_bytes));
  CHECK(memcmp(saved, again, info.state_bytes) == 0);

  /* The stream, the restored one and the fork go on to the last bit. */
  for (size_t t = half; t < samples; ++t) {
    float three[3 * inputs], answers[3 * outputs];
    for (size_t s = 0; s < 3; ++s) memcpy(three + s * inputs, in + t * inputs, inputs * sizeof *in);
    OK(rtf_stream_step_f32(streams, NULL, 3, three, 3 * inputs, answers, 3 * outputs));
    for (size_t s = 0; s < 3; ++s)
      CHECK(memcmp(answers + s * outputs, wanted + t * outputs, outputs * sizeof *answers) == 0);
  }

  int joined = -1;
  size_t stream = 99;
  REFUSED(rtf_stream_join(streams, &stream), RTF_ERROR_ARGUMENT, "all 3 streams are taken");
  CHECK(stream == 99);
  OK(rtf_stream_leave(streams, 1));
  OK(rtf_stream_joined(streams, 1, &joined));
  CHECK(joined == 0);
  REFUSED(rtf_stream_step_f32(streams, NULL, 2, in, 2 * inputs, wanted, 2 * outputs), RTF_ERROR_ARGUMENT,
          "stream 1 has not joined");
  OK(rtf_stream_join(streams, &stream));
  CHECK(stream == 1);
  OK(rtf_stream_joined(streams, 1, &joined));
  CHECK(joined == 1);

  /* Damaged, cut short, of another model: refused, and nothing changes. */
  OK(rtf_stream_restore(streams, 0, saved, info.state_bytes));
  saved[info.state_bytes - 1] ^= 1;
  REFUSED(rtf_stream_restore(streams, 0, saved, info.state_bytes), RTF_ERROR_FORMAT, "damaged");
  saved[info.state_bytes - 1] ^= 1;
  REFUSED(rtf_stream_restore(streams, 0, saved, 5), RTF_ERROR_FORMAT, "5 bytes");
  REFUSED(rtf_stream_restore(streams, 0, saved, info.state_bytes - 1), RTF_ERROR_FORMAT, "damaged");
  REFUSED(rtf_stream_restore(streams, 0, NULL, info.state_bytes), RTF_ERROR_ARGUMENT, "bytes is null");
  REFUSED(rtf_stream_save(streams, 0, saved, info.state_bytes - 1), RTF_ERROR_ARGUMENT, "room for");
  REFUSED(rtf_stream_save(streams, 7, saved, info.state_bytes), RTF_ERROR_ARGUMENT, "stream 7");
  rtf_model* louder = load("louder", RTF_F32);
  rtf_streams* others = streams_of(louder, 1, 1);
  REFUSED(rtf_stream_restore(others, 0, saved, info.state_bytes), RTF_ERROR_FORMAT, "a state of another model");
  OK(rtf_stream_step_f32(streams, NULL, 1, in + half * inputs, inputs, out, outputs));
  CHECK(memcmp(out, wanted + half * outputs, sizeof out) == 0);

  rtf_stream_free(others);
  rtf_stream_free(streams);
  rtf_model_free(louder);
  rtf_model_free(model);
  free(saved);
  free(again);
}

static void test_swap(void) {
  enum { fade = 20 };
  float in[samples * inputs], before[samples * outputs], after[samples * outputs], out[samples * outputs];
  make_samples(in, samples * inputs);
  rtf_model *model = load("numbers", RTF_F32), *louder = load("louder", RTF_F32), *wide = load("double", RTF_F64);
  whole(model, in, before);
  whole(louder, in, after); /* the same states: only the decoder differs */
  rtf_streams* streams = streams_of(model, 1, 1);
  const size_t half = samples / 2;
  rtf_layout from = rtf_channels_last(1, half, inputs), to = rtf_channels_last(1, half, outputs);
  OK(rtf_stream_process_f32(streams, NULL, 1, in, &from, out, &to));
  OK(rtf_stream_swap(streams, louder, fade));
  REFUSED(rtf_stream_swap(streams, model, fade), RTF_ERROR_ARGUMENT, "1 stream still fades");
  OK(rtf_stream_process_f32(streams, NULL, 1, in + half * inputs, &from, out + half * outputs, &to));
  for (size_t t = 0; t < samples; ++t)
    for (size_t o = 0; o < outputs; ++o) {
      const size_t i = t * outputs + o;
      const double old = t < half ? 1.0 : t - half >= fade ? 0.0 : (double)(fade - (t - half)) / (fade + 1);
      const double wanted = old * before[i] + (1 - old) * after[i];
      CHECK(fabs(out[i] - wanted) <= 1e-5 * (fabs(before[i]) + fabs(after[i])));
    }
  REFUSED(rtf_stream_swap(streams, NULL, 0), RTF_ERROR_ARGUMENT, "model is null");
  REFUSED(rtf_stream_swap(streams, wide, 0), RTF_ERROR_ARGUMENT, "the streams run in f32");
  rtf_model* pool = load("pool", RTF_F32);
  REFUSED(rtf_stream_swap(streams, pool, 0), RTF_ERROR_ARGUMENT, "different architectures");
  rtf_model_free(pool);
  rtf_stream_free(streams);
  rtf_model_free(model);
  rtf_model_free(louder);
  rtf_model_free(wide);
}

static void test_decoders(void) {
  float in[samples * inputs], all[samples * outputs], answer[outputs], other[outputs];
  make_samples(in, samples * inputs);
  const rtf_layout from = rtf_channels_last(1, samples, inputs);

  rtf_model* model = load("pool", RTF_F32);
  whole(model, in, all);
  rtf_streams* streams = streams_of(model, 2, 2);
  OK(rtf_stream_prefill_f32(streams, NULL, 1, in, &from));
  OK(rtf_stream_answer_f32(streams, 0, answer, outputs));
  for (size_t o = 0; o < outputs; ++o) CHECK(fabsf(answer[o] - all[(samples - 1) * outputs + o]) <= 1e-5f);
  REFUSED(rtf_stream_answer_f32(streams, 0, answer, 1), RTF_ERROR_ARGUMENT, "out has 1 values; 3 are needed");
  REFUSED(rtf_stream_answer_f32(streams, 0, NULL, outputs), RTF_ERROR_ARGUMENT, "out is null");
  REFUSED(rtf_stream_answer_pair_f32(streams, 0, 0, answer, outputs), RTF_ERROR_ARGUMENT, "the decoder is pool");
  rtf_stream_free(streams);
  rtf_model_free(model);

  model = load("pair", RTF_F32);
  streams = streams_of(model, 2, 2);
  OK(rtf_stream_process_f32(streams, NULL, 1, in, &from, NULL, NULL));
  const size_t second = 1;
  OK(rtf_stream_step_f32(streams, &second, 1, in, inputs, NULL, 0));
  OK(rtf_stream_answer_pair_f32(streams, 0, 1, answer, outputs));
  OK(rtf_stream_answer_pair_f32(streams, 1, 0, other, outputs));
  CHECK(memcmp(answer, other, sizeof answer) != 0);
  REFUSED(rtf_stream_step_f32(streams, &second, 1, in, inputs, answer, outputs), RTF_ERROR_ARGUMENT,
          "out has 3 values");
  REFUSED(rtf_stream_answer_f32(streams, 0, answer, outputs), RTF_ERROR_ARGUMENT, "the decoder is pair");
  rtf_stream_free(streams);
  rtf_model_free(model);

  model = load("tokens", RTF_F32);
  rtf_model_info info;
  OK(rtf_model_describe(model, &info));
  CHECK(info.vocabulary == 7 && info.inputs == 1);
  streams = streams_of(model, 2, 2);
  const int64_t tokens[] = {0, 6, 3, 3, 1, 2}, wrong[] = {0, 7};
  rtf_layout words = rtf_channels_last(1, 6, 1);
  const rtf_layout to = rtf_channels_last(1, 6, outputs);
  OK(rtf_stream_process_tokens_f32(streams, NULL, 1, tokens, &words, all, &to));
  words.length = 5;
  OK(rtf_stream_prefill_tokens(streams, &second, 1, tokens, &words));
  OK(rtf_stream_step_tokens_f32(streams, &second, 1, tokens + 5, 1, answer, outputs));
  CHECK(memcmp(answer, all + 5 * outputs, sizeof answer) == 0);
  REFUSED(rtf_stream_step_tokens_f32(streams, NULL, 2, wrong, 2, all, 2 * outputs), RTF_ERROR_ARGUMENT,
          "token 7 is outside the vocabulary of 7");
  REFUSED(rtf_stream_step_tokens_f32(streams, NULL, 2, NULL, 2, all, 2 * outputs), RTF_ERROR_ARGUMENT,
          "tokens is null");
  REFUSED(rtf_stream_prefill_f32(streams, NULL, 1, in, &from), RTF_ERROR_ARGUMENT, "the model takes tokens");
  rtf_stream_free(streams);
  rtf_model_free(model);
}

static void test_precisions(void) {
  float in[samples * inputs], out[samples * outputs];
  double wide_in[samples * inputs], wide_out[samples * outputs], answer[outputs];
  make_samples(in, samples * inputs);
  for (size_t i = 0; i < samples * inputs; ++i) wide_in[i] = in[i];
  rtf_model* model = NULL;
  REFUSED(rtf_model_load(path_of("double"), RTF_F32, &model), RTF_ERROR_ARGUMENT, "precision f64");
  REFUSED(rtf_model_load(path_of("double"), (rtf_precision)5, &model), RTF_ERROR_ARGUMENT, "precision 5");
  CHECK(model == NULL);

  /* The same file in both arithmetics. */
  rtf_model *narrow = load("numbers", RTF_F32), *wide = load("numbers", RTF_F64);
  whole(narrow, in, out);
  rtf_streams* streams = streams_of(wide, 1, 1);
  const rtf_layout from = rtf_channels_last(1, samples, inputs), to = rtf_channels_last(1, samples, outputs);
  OK(rtf_stream_process_f64(streams, NULL, 1, wide_in, &from, wide_out, &to));
  double largest = 0;
  for (size_t i = 0; i < samples * outputs; ++i) largest = fmax(largest, fabs(wide_out[i]));
  for (size_t i = 0; i < samples * outputs; ++i) CHECK(fabs(out[i] - wide_out[i]) <= 1e-4 * largest);
  OK(rtf_stream_reset(streams, 0));
  OK(rtf_stream_step_f64(streams, NULL, 1, wide_in, inputs, answer, outputs));
  CHECK(memcmp(answer, wide_out, sizeof answer) == 0);
  OK(rtf_stream_prefill_f64(streams, NULL, 1, wide_in, &from));
  REFUSED(rtf_stream_answer_f64(streams, 0, answer, outputs), RTF_ERROR_ARGUMENT, "the decoder is position");
  REFUSED(rtf_stream_answer_pair_f64(streams, 0, 0, answer, outputs), RTF_ERROR_ARGUMENT, "the decoder is position");
  REFUSED(rtf_stream_step_f32(streams, NULL, 1, in, inputs, out, outputs), RTF_ERROR_ARGUMENT,
          "[rtf::stream::step] the model was loaded as f64: call the function that ends in _f64");
  const int64_t token = 0;
  REFUSED(rtf_stream_step_tokens_f64(streams, NULL, 1, &token, 1, answer, outputs), RTF_ERROR_ARGUMENT, "not tokens");
  const rtf_layout one = rtf_channels_last(1, 1, 1);
  REFUSED(rtf_stream_process_tokens_f64(streams, NULL, 1, &token, &one, answer, &to), RTF_ERROR_ARGUMENT, "not tokens");
  rtf_stream_free(streams);
  rtf_model_free(narrow);
  rtf_model_free(wide);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fputs("usage: c_api_test FOLDER\n", stderr);
    return 2;
  }
  folder = argv[1];
  CHECK(strcmp(rtf_version(), RTF_VERSION) == 0);
  CHECK(strcmp(rtf_last_error(), "") == 0);
  CHECK(strcmp(rtf_status_name(RTF_OK), "ok") == 0 && strcmp(rtf_status_name(RTF_ERROR_MEMORY), "memory") == 0);
  CHECK(strcmp(rtf_status_name((rtf_status)99), "unknown") == 0);
  test_model();
  test_cuts();
  test_state();
  test_swap();
  test_decoders();
  test_sequences();
  test_precisions();
  test_refusals();
  test_filter();
  test_threads();
  printf("c_api_test: %s\n", failures == 0 ? "all good" : "FAILURES");
  return failures == 0 ? 0 : 1;
}
