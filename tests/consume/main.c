/* consume_c MODEL: a C program against the installed shared library, through its CMake package. */
#include <rtf.h>
#include <stdio.h>

int main(int argc, char** argv) {
  rtf_model* model = NULL;
  rtf_model_info info;
  if (argc != 2 || rtf_model_load(argv[1], RTF_F32, &model) != RTF_OK || rtf_model_describe(model, &info) != RTF_OK) {
    fprintf(stderr, "consume_c: %s\n", rtf_last_error());
    return 1;
  }
  printf("consume_c: rtf %s, a model of %zu layers\n", rtf_version(), info.layers);
  rtf_model_free(model);
  return 0;
}
