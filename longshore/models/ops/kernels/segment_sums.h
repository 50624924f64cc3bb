// segment_sums() adds up what the segments of rows have, in a fixed order, with ATen's ops.
#pragma once

#include <ATen/core/Tensor.h>

namespace longshore::models {

// Of values [B,T], by segments i32 [B,T], which ascend, but for the padding (0) behind them: f64
// [B,T], that of segment s, counted from 1, at s - 1. Differences of running sums.
at::Tensor segment_sums(const at::Tensor& values, const at::Tensor& segments);

// What each position's segment has of such values by place; for padding any.
at::Tensor of_segments(const at::Tensor& by_place, const at::Tensor& segments);

}  // namespace longshore::models
