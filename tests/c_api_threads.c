/* Streams of one model in several threads. */
#include <pthread.h>
#include <string.h>

#include "c_api_test.h"

struct work {
  const rtf_model* model;
  const float *in, *wanted;
  int good;
};

static void* stream_along(void* context) {
  struct work* work = context;
  rtf_streams* streams = NULL;
  size_t stream = 0;
  work->good = rtf_stream_new(work->model, 1, &streams) == RTF_OK && rtf_stream_join(streams, &stream) == RTF_OK;
  for (int round = 0; round < 20; ++round) {
    work->good = work->good && rtf_stream_reset(streams, stream) == RTF_OK;
    for (size_t t = 0; t < samples; ++t) {
      float out[outputs];
      work->good = work->good &&
                   rtf_stream_step_f32(streams, NULL, 1, work->in + t * inputs, inputs, out, outputs) == RTF_OK &&
                   memcmp(out, work->wanted + t * outputs, sizeof out) == 0;
    }
  }
  /* A message of its own, whatever the other threads do. */
  work->good = work->good && rtf_last_error()[0] == '\0' && rtf_stream_leave(streams, 5) == RTF_ERROR_ARGUMENT &&
               strstr(rtf_last_error(), "stream 5") != NULL;
  rtf_stream_free(streams);
  return NULL;
}

void test_threads(void) {
  enum { threads = 3 };
  float in[samples * inputs], wanted[samples * outputs];
  make_samples(in, samples * inputs);
  rtf_model* model = load("numbers", RTF_F32);
  whole(model, in, wanted);
  REFUSED(rtf_stream_leave(NULL, 0), RTF_ERROR_ARGUMENT, "[rtf::stream::leave] streams is null");
  struct work works[threads];
  pthread_t ids[threads];
  for (int i = 0; i < threads; ++i) {
    works[i] = (struct work){model, in, wanted, 0};
    CHECK(pthread_create(&ids[i], NULL, stream_along, &works[i]) == 0);
  }
  for (int i = 0; i < threads; ++i) {
    pthread_join(ids[i], NULL);
    CHECK(works[i].good);
  }
  CHECK(strcmp(rtf_last_error(), "[rtf::stream::leave] streams is null") == 0);
  rtf_model_free(model);
}
