/* A filter file: its kernel, its response at angle 0, and a ramp through it in two blocks. */
#include <rtf.h>
#include <stdio.h>
#include <stdlib.h>

static void expect(rtf_status status) {
  if (status == RTF_OK) return;
  fprintf(stderr, "filter: %s\n", rtf_last_error());
  exit(2);
}

static void print(const char* what, const double* values, size_t count) {
  printf("%-9s", what);
  for (size_t i = 0; i < count; ++i) printf(" %7.4f", values[i]);
  putchar('\n');
}

int main(void) {
  rtf_filter* filter;
  expect(rtf_filter_load("decay.json", &filter)); /* one channel of order 1 */

  double kernel[4], response[2], ramp[] = {1, 2, 3, 4}, out[4], state[] = {0};
  const double angle = 0;
  expect(rtf_filter_kernel(filter, 4, kernel, 4));
  expect(rtf_filter_frequency_response(filter, &angle, 1, response, 2));
  expect(rtf_filter_process(filter, ramp, out, 3, state, 1));
  expect(rtf_filter_process(filter, ramp + 3, out + 3, 1, state, 1));
  print("kernel", kernel, 4);
  print("response", response, 2);
  print("output", out, 4);
  print("state", state, 1);
  rtf_filter_free(filter);
  return 0;
}
