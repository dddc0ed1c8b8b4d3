/* stream MODEL STATE: a sample a line in, an answer a line out. It goes on from the file STATE where there is one, and
 * leaves there where it ends. */
#include <rtf.h>
#include <stdio.h>
#include <stdlib.h>

static void expect(rtf_status status) {
  if (status == RTF_OK) return;
  fprintf(stderr, "stream: %s\n", rtf_last_error());
  exit(2);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fputs("usage: stream MODEL STATE < samples > answers\n", stderr);
    return 2;
  }
  rtf_model* model;
  rtf_model_info info;
  expect(rtf_model_load(argv[1], RTF_F32, &model));
  expect(rtf_model_describe(model, &info));
  fprintf(stderr, "%zu numbers in, %zu out, %zu layers\n", info.inputs, info.outputs, info.layers);

  rtf_streams* streams; /* room for one */
  size_t stream;
  expect(rtf_stream_new(model, 1, &streams));
  expect(rtf_stream_join(streams, &stream));

  float* in = calloc(info.inputs, sizeof *in);
  float* out = calloc(info.outputs, sizeof *out);
  void* state = malloc(info.state_bytes);
  if (in == NULL || out == NULL || state == NULL) return 2;

  FILE* file = fopen(argv[2], "rb");
  if (file != NULL) {
    const size_t size = fread(state, 1, info.state_bytes, file);
    fclose(file);
    expect(rtf_stream_restore(streams, stream, state, size));
  }

  size_t got = 0;
  while (scanf("%f", &in[got]) == 1) {
    if (++got < info.inputs) continue;
    got = 0;
    expect(rtf_stream_step_f32(streams, &stream, 1, in, info.inputs, out, info.outputs));
    for (size_t o = 0; o < info.outputs; ++o) printf("%.9g%c", out[o], o + 1 < info.outputs ? ' ' : '\n');
  }

  expect(rtf_stream_save(streams, stream, state, info.state_bytes));
  file = fopen(argv[2], "wb");
  if (file == NULL || fwrite(state, 1, info.state_bytes, file) != info.state_bytes || fclose(file) != 0) {
    perror(argv[2]);
    return 2;
  }
  free(state);
  free(out);
  free(in);
  rtf_stream_free(streams);
  rtf_model_free(model);
  return 0;
}
