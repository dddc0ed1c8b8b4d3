// The frequency response of a state space.
#pragma once

#include <Eigen/Core>

#include "rtf/state_space.h"

namespace rtf {

// D + C (e^{i angle} I - A)^{-1} B, by a Hessenberg matrix similar to A: O(order^2) an angle.
class StateSpaceResponse {
 public:
  explicit StateSpaceResponse(const StateSpace& system);

  Eigen::MatrixXcd operator()(double angle) const;  // (outputs, inputs)

 private:
  Eigen::MatrixXd A_, B_, C_, D_;
};

}  // namespace rtf
