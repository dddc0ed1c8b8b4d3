#include "train/export_run.h"

#include <cmath>
#include <filesystem>

#include "core/atomic_file.h"
#include "rtf/error.h"
#include "rtf_torch/export.h"
#include "train/model_setup.h"
#include "train/plain_errors.h"

namespace rtf::train {
namespace {

namespace fs = std::filesystem;

// A checkpoint that was taken out of its run's folder can be exported where its task needs no data.
std::string data_path(const std::string& checkpoint) {
  const fs::path folder = fs::absolute(checkpoint).parent_path().parent_path();
  std::error_code ignored;
  if (!fs::is_regular_file(folder / "config.yaml", ignored)) return {};
  return load_config((folder / "config.yaml").string()).data.path;
}

// What is read must outlive what is written: a run's weights are not written over, of whichever name.
void check_not_read(const std::string& output, const std::string& checkpoint) {
  const auto place = [](const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); };
  const fs::path to = place(output), from = place(checkpoint);
  const bool among_them = to.parent_path() == from.parent_path() && to.parent_path().filename() == "checkpoints";
  if (to == from || (among_them && fs::exists(to)))
    throw Error(ErrorCode::argument, "export",
                output + " is a checkpoint of the run that is read; choose another output");
}

// On the CPU, where weights that a GPU trained in tf32 or bf16 are float32.
Config config_of(const Checkpoint& checkpoint, const std::string& path) {
  std::map<std::string, std::string> settings = checkpoint.config;
  std::string& precision = settings["train.precision"];
  if (precision != "fp64") precision = "fp32";
  Config config = from_settings(settings, path);
  config.data.path = data_path(path);
  return config;
}

}  // namespace

ExportReport export_run(const std::string& run, const std::string& checkpoint, const std::string& output,
                        const RealizeOptions& options, std::optional<DataType> weights) {
  check_output(output, "export");
  std::error_code ignored;
  ExportReport report;
  report.checkpoint = fs::is_directory(run, ignored) ? RunFolder::open(run).weights(checkpoint) : run;
  check_not_read(output, report.checkpoint);
  return plain_errors("export", {"not enough memory for a model of these sizes", ""}, [&] {
    const Checkpoint saved = read_checkpoint(report.checkpoint);
    report.step = saved.position.step;
    const Config config = config_of(saved, report.checkpoint);
    const c10::Device device = set_up_torch(config.train);
    nn::SequenceModel model = make_model(config, *make_task(config, number_type(config.train)), device);
    load_tensors(saved, model_tensors(model), "model.", report.checkpoint);
    load_averages(saved, model);
    Exported exported = nn::export_model(*model, options);
    if (weights) round_weights(exported.file, *weights);
    report.answer_error = nn::answer_error(*model, exported.file);
    if (!std::isfinite(report.answer_error))
      throw Error(ErrorCode::unsupported, "export",
                  report.checkpoint + ": the model's answers are not finite" +
                      (options.precision == DataType::f32 ? "; --precision f64 holds larger numbers" : ""));
    write_model(output, exported.file);
    report.architecture = exported.file.architecture;
    report.layers = std::move(exported.layers);
    return report;
  });
}

}  // namespace rtf::train
