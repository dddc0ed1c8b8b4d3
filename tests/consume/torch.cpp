// The operators and modules as an installed package: only what is declared in the headers.
#include <rtf_torch/operators.h>
#include <rtf_torch/sequence_model.h>
#ifdef CONSUME_CUDA
#include <rtf_torch/step_graph.h>
#endif

#include <cstdio>

int main() {
  rtf::nn::SequenceModelOptions options;
  options.layer.channels = 4;
  options.layer.length = 16;
  options.outputs = 2;
  const rtf::nn::SequenceModel model(options);
  std::printf("%zu parameters\n", model->parameters().size());
#ifdef CONSUME_CUDA
  // Without a device there is no graph, but the function is there.
  volatile auto step = &rtf::nn::StepGraph::step;
  if (!step) return 1;
#endif
  return model->parameters().empty();
}
