// Memory for the operations' workspaces.
#pragma once

#include <cstddef>
#include <span>

namespace rtf {

// Aligned to a cache line, and on huge pages where the system has them: a transform jumps through all of its workspace.
// Any other memory of the size a plan asks for will do as well, a little slower.
class Workspace {
 public:
  Workspace() = default;
  explicit Workspace(std::size_t bytes);
  ~Workspace();
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&& other) noexcept;

  std::size_t size() const { return bytes_; }
  std::byte* data() const { return data_; }
  operator std::span<std::byte>() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace rtf
