// Checkpoints in parts: under the checkpoint's name lies an index, JSON, of files whose bytes, one after the other, are
// the checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rtf {

// Writes `bytes` beside `index` in files of at most `most` bytes, which begin with `stem`, and then the index. No file
// of another checkpoint is touched: the names of parts hold their checksum.
void write_parts(const std::string& index, const std::string& stem, std::string_view bytes, std::size_t most);

// The bytes of a checkpoint, in one file or in parts. Refuses parts that are missing or not what the index says.
std::string read_parts(const std::string& path);

// Removes the parts in a folder that no index in it names.
void remove_unused_parts(const std::string& folder);

}  // namespace rtf
