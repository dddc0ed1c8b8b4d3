#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c_api_test.h"

int failures = 0;
const char* folder;

void check(int good, const char* what, const char* file, int line) {
  if (good) return;
  ++failures;
  fprintf(stderr, "%s:%d: %s; last error: %s\n", file, line, what, rtf_last_error());
}

void refused(rtf_status got, rtf_status wanted, const char* part, const char* what, const char* file, int line) {
  const char* message = rtf_last_error();
  check(got == wanted, what, file, line);
  check(strncmp(message, "[rtf::", 6) == 0 && strchr(message, '\n') == NULL && strstr(message, part) != NULL, part,
        file, line);
}

const char* path_of(const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
  return path;
}

rtf_model* load(const char* name, rtf_precision precision) {
  rtf_model* model = NULL;
  OK(rtf_model_load(path_of(name), precision, &model));
  return model;
}

rtf_streams* streams_of(const rtf_model* model, size_t capacity, size_t joined) {
  rtf_streams* streams = NULL;
  size_t stream = 99;
  OK(rtf_stream_new(model, capacity, &streams));
  for (size_t i = 0; i < joined; ++i) {
    OK(rtf_stream_join(streams, &stream));
    CHECK(stream == i);
  }
  return streams;
}

void make_samples(float* in, size_t count) {
  unsigned state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    in[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
  }
}

void* read_whole(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* bytes = malloc(*size + 1);
  if (fread(bytes, 1, *size, file) != *size) *size = 0;
  fclose(file);
  return bytes;
}

void whole(const rtf_model* model, const float* in, float* out) {
  rtf_streams* streams = streams_of(model, 1, 1);
  const rtf_layout from = rtf_channels_last(1, samples, inputs), to = rtf_channels_last(1, samples, outputs);
  OK(rtf_stream_process_f32(streams, NULL, 1, in, &from, out, &to));
  rtf_stream_free(streams);
}
