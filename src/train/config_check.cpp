#include "train/config_check.h"

#include <fmt/format.h>

#include "rtf/error.h"

namespace rtf::train {

void check_together(const Config& config, const std::string& file) {
  const TaskConfig& task = config.task;
  const ModelConfig& model = config.model;
  const auto require = [&](bool fine, const std::string& message) {
    if (!fine) throw Error(ErrorCode::argument, "load_config", fmt::format("{}: {}", file, message));
  };
  if (task.name == "delay" || task.name == "reconstruct") {
    const double nyquist = 0.5 / task.dt, lowest = 1 / (task.dt * static_cast<double>(task.length));
    require(task.band >= lowest && task.band <= nyquist,
            fmt::format("task.band is {}, expected from {:.6g} to {:.6g}, what task.length samples of task.dt can hold",
                        task.band, lowest, nyquist));
  }
  if (task.name == "delay") {
    require(task.lag < task.length,
            fmt::format("task.lag is {}, expected less than task.length, {}", task.lag, task.length));
  }
  if (task.name == "reconstruct") {
    require(task.window <= task.length,
            fmt::format("task.window is {}, expected at most task.length, {}", task.window, task.length));
  }
  require(model.channels % model.denominators == 0,
          fmt::format("model.denominators is {}, expected a divisor of model.channels, {}", model.denominators,
                      model.channels));
  if (model.layer == "s4" || model.layer == "s4d" || model.layer == "s5") {
    const std::string& layer = model.layer;
    require(model.order % 2 == 0,
            fmt::format("model.order is {}, expected an even number because model.layer is {}", model.order, layer));
    require(model.dt_min <= model.dt_max,
            fmt::format("model.dt_min is {}, expected at most model.dt_max, {}", model.dt_min, model.dt_max));
  }
  if (model.layer == "s5") {
    require(model.denominators == 1,
            fmt::format("model.denominators is {}, expected 1 because model.layer is s5", model.denominators));
    require(
        model.order % (2 * model.blocks) == 0,
        fmt::format("model.blocks is {}, expected a divisor of half of model.order, {}", model.blocks, model.order));
  }
  require(model.layer != "s4" || model.initial_c == "normal" || model.init == "fourier",
          fmt::format("model.initial_c is {}, expected normal because model.init is {}", model.initial_c, model.init));
  require(model.residual || model.norm == "none",
          fmt::format("model.norm is {}, expected none because model.residual is false", model.norm));
  require(model.residual || model.dropout == 0,
          fmt::format("model.dropout is {}, expected 0 because model.residual is false", model.dropout));
  require(config.train.chunk == 0 || !model.bidirectional,
          fmt::format("train.chunk is {}, expected 0 because model.bidirectional is true", config.train.chunk));
  const TrainConfig& train = config.train;
  require(train.device != "cpu" || train.precision == "fp32" || train.precision == "fp64",
          fmt::format("train.precision is {}, expected fp32 or fp64 because train.device is cpu", train.precision));
  const OptimizerConfig& optimizer = config.optimizer;
  require(
      optimizer.total == 0 || optimizer.warmup < optimizer.total,
      fmt::format("optimizer.warmup is {}, expected less than optimizer.total, {}", optimizer.warmup, optimizer.total));
}

}  // namespace rtf::train
