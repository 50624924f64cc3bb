// Hardware profiles: configs/hardware/NAME.yml. Flat YAML like any config, read as strictly; rates
// are numbers, or lists of "size:rate" where they depend on the size (see offload/hardware.h):
//
//   target: cuda                                     cuda or cpu: whose kernels plans are made of
//   device_bytes, device_reserved_bytes, host_bytes
//   peak_flops_per_second.bf16: 989e12               also .f32
//   launch_seconds: 4e-6
//   flops_per_second.WORK: [1e9:2e14, 1e12:7e14]     WORK: [host.](op or class)[.dtype]
//   bytes_per_second.WORK: ...                       classes: matmul, attention, memory
//   cache_bytes: 3e7          fetch_bytes_per_second: 1e10   both or none
//   link_to_device, link_to_host: 55e9
//   link_both_ways: 0.9
//   gpus_per_link: 1          host_bandwidth: 300e9          peer_to_peer: true
//   ici, dcn: 300e9                                   needed where several devices train together
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "offload/hardware.h"

namespace longshore::trainer {

// A path, or the name of a file of `configs_directory`/hardware. Throws ConfigError, which names
// file, line and key, what was found, what was expected and the nearest valid choice.
offload::Hardware read_hardware(const std::string& name_or_file,
                                const std::filesystem::path& configs_directory);
offload::Hardware parse_hardware(std::string_view text, const std::string& file,
                                 const std::string& name);

// The profiles of that folder, by name, in order.
std::vector<std::string> hardware_names(const std::filesystem::path& configs_directory);

// What parse_hardware() reads back as the same profile.
std::string text(const offload::Hardware& hardware);

}  // namespace longshore::trainer
