/* Filter files: known answers, and refusals. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "c_api_test.h"

static const char* write_filter(const char* text) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/c_api_filter.json", folder);
  FILE* file = fopen(path, "w");
  fputs(text, file);
  fclose(file);
  return path;
}

void test_filter(void) {
  /* H = 2 + w / (1 - w/2), and a gain of 3. */
  rtf_filter* filter = NULL;
  OK(rtf_filter_load(write_filter("{\"a\": [[-0.5]], \"b\": [[1], [0]], \"h0\": [2, 3]}"), &filter));
  rtf_filter_info info;
  OK(rtf_filter_describe(filter, &info));
  CHECK(info.channels == 2 && info.order == 1);
  double kernel[8];
  const double wanted_kernel[] = {2, 1, 0.5, 0.25, 3, 0, 0, 0};
  OK(rtf_filter_kernel(filter, 4, kernel, 8));
  for (int i = 0; i < 8; ++i) CHECK(fabs(kernel[i] - wanted_kernel[i]) <= 1e-15);

  const double pi = acos(-1.0), angles[] = {0, pi};
  double response[8];
  const double wanted_response[] = {4, 0, 2 - 2.0 / 3, 0, 3, 0, 3, 0};
  OK(rtf_filter_frequency_response(filter, angles, 2, response, 8));
  for (int i = 0; i < 8; ++i) CHECK(fabs(response[i] - wanted_response[i]) <= 1e-14);

  /* A ramp in two blocks, the second in place; the state is v = u / A. */
  const double in[] = {1, 1, 2, 2, 3, 3, 4, 4}, wanted[] = {2, 3, 5, 6, 8.5, 9, 12.25, 12};
  double out[8], state[2] = {0, 0};
  OK(rtf_filter_process(filter, in, out, 4, state, 2));
  memcpy(out + 4, in + 4, 4 * sizeof *in);
  OK(rtf_filter_process(filter, out + 4, out + 4, 4, state, 2));
  for (int i = 0; i < 8; ++i) CHECK(fabs(out[i] - wanted[i]) <= 1e-14);
  CHECK(fabs(state[0] - 6.125) <= 1e-14);
  OK(rtf_filter_process(filter, in, out, 8, NULL, 0));
  for (int i = 0; i < 8; ++i) CHECK(fabs(out[i] - wanted[i]) <= 1e-14);
  OK(rtf_filter_process(filter, NULL, NULL, 0, state, 2));

  REFUSED(rtf_filter_process(filter, in, out, 3, NULL, 0), RTF_ERROR_ARGUMENT, "a block of 3 numbers");
  REFUSED(rtf_filter_process(filter, in, out, 8, state, 1), RTF_ERROR_ARGUMENT, "state has 1 values; 2 are needed");
  REFUSED(rtf_filter_process(filter, in, out, 8, NULL, 2), RTF_ERROR_ARGUMENT, "state is null");
  REFUSED(rtf_filter_process(filter, NULL, out, 8, NULL, 0), RTF_ERROR_ARGUMENT, "in is null");
  REFUSED(rtf_filter_process(filter, in, NULL, 8, NULL, 0), RTF_ERROR_ARGUMENT, "out is null");
  REFUSED(rtf_filter_process(NULL, in, out, 8, NULL, 0), RTF_ERROR_ARGUMENT, "filter is null");
  REFUSED(rtf_filter_kernel(filter, 4, kernel, 7), RTF_ERROR_ARGUMENT, "kernel has 7 values; 8 are needed");
  REFUSED(rtf_filter_kernel(filter, SIZE_MAX, kernel, 8), RTF_ERROR_ARGUMENT, "kernel would have 2 times");
  REFUSED(rtf_filter_kernel(filter, 4, NULL, 8), RTF_ERROR_ARGUMENT, "kernel is null");
  REFUSED(rtf_filter_kernel(NULL, 4, kernel, 8), RTF_ERROR_ARGUMENT, "filter is null");
  REFUSED(rtf_filter_frequency_response(filter, angles, 2, response, 4), RTF_ERROR_ARGUMENT, "response has 4 values");
  REFUSED(rtf_filter_frequency_response(filter, NULL, 2, response, 8), RTF_ERROR_ARGUMENT, "angles is null");
  REFUSED(rtf_filter_frequency_response(filter, angles, 2, NULL, 8), RTF_ERROR_ARGUMENT, "response is null");
  REFUSED(rtf_filter_frequency_response(NULL, angles, 2, response, 8), RTF_ERROR_ARGUMENT, "filter is null");
  REFUSED(rtf_filter_describe(NULL, &info), RTF_ERROR_ARGUMENT, "filter is null");
  REFUSED(rtf_filter_describe(filter, NULL), RTF_ERROR_ARGUMENT, "info is null");
  rtf_filter_free(filter);

  filter = NULL;
  REFUSED(rtf_filter_load(NULL, &filter), RTF_ERROR_ARGUMENT, "path is null");
  REFUSED(rtf_filter_load("none.json", NULL), RTF_ERROR_ARGUMENT, "is null");
  REFUSED(rtf_filter_load("none.json", &filter), RTF_ERROR_IO, "none.json");
  REFUSED(rtf_filter_load(write_filter("{\"a\": [1"), &filter), RTF_ERROR_FORMAT, "c_api_filter.json");
  CHECK(filter == NULL);
  OK(rtf_filter_load(write_filter("{\"a\": [-2], \"b\": [1], \"h0\": 0}"), &filter));
  double many[2000] = {1}, one_state[1] = {0};
  REFUSED(rtf_filter_process(filter, many, many, 2000, one_state, 1), RTF_ERROR_UNSTABLE, "outside the unit circle");
  CHECK(many[0] == 1 && many[1] == 0 && one_state[0] == 0);
  rtf_filter_free(filter);
}
