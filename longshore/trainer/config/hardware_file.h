// Hardware profiles, the files configs/hardware/NAME.yml. They are flat YAML and read as strictly
// as configs. A rate is a number, or a list of "size:rate" if it depends on the size; both are at
// least 1, and what is computed of the numbers is finite and more than nothing. The meanings
// and units of the keys are those of the members in longshore/offload/hardware/hardware.h:
//
// clang-format off
//   target: cuda                                    cuda or cpu: the target that plans are made for
//   source: measured                                how the figures are known: measured,
//                                                   published_runs or data_sheet
//   device_bytes, device_reserved_bytes, host_bytes
//   peak_flops_per_second.bf16: 989e12              and .f32; MFU is against it
//   launch_seconds: 4e-6
//   flops_per_second.WORK: [1e9:2e14, 1e12:7e14]    WORK: [host.](op, its variant, or class)[.dtype]
//   flops_per_second.grouped.bf16: [128:4e14]       of products of experts, by rows of an expert
//   bytes_per_second.WORK: ...                      classes: matmul, attention, memory, grouped
//   cache_bytes: 3e7          fetch_bytes_per_second: 1e10   both or none
//   link_to_device, link_to_host: 55e9
//   link_both_ways: 0.9
//   gpus_per_link: 1          host_bandwidth: 300e9          peer_to_peer: true
//   ici, dcn: 300e9                                 needed if several devices train together
//   ici_links: [4:2, 64:6]                          DEVICES:LINKS; `ici` is then the rate of one
//   ici_hop_seconds: 3e-6     dcn_hop_seconds: 14e-6
//   dcn_contention: 0.1       kernels_beside_dcn: 0.7
// clang-format on
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/offload/hardware/hardware.h"

namespace longshore::trainer {

// Reads a profile, by its path or the name of a file of `configs_directory`/hardware. Throws
// KeyError if there is no such file, and ConfigError, which names file, line and key, what was
// found, what was expected and the nearest valid choice, if its contents are not valid.
offload::Hardware read_hardware(const std::string& name_or_file,
                                const std::filesystem::path& configs_directory);
offload::Hardware parse_hardware(std::string_view text, const std::string& file,
                                 const std::string& name);

// Whether these rates of a profile say how fast that work (an op or a class of ops, perhaps
// "host.") is with `dtype`.
bool has_rate(const std::map<std::string, offload::RateCurve>& rates, const std::string& work,
              models::Dtype dtype);

// The names of the profiles in `configs_directory`/hardware, sorted.
std::vector<std::string> hardware_names(const std::filesystem::path& configs_directory);

// The text of a profile; parse_hardware() reads it back, with six digits of each rate.
std::string text(const offload::Hardware& hardware);

}  // namespace longshore::trainer
