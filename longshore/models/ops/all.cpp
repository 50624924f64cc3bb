// The one list of ops that have kernels.
#include "longshore/models/ir/add.h"
#include "longshore/models/ops/add_bias/add_bias.h"
#include "longshore/models/ops/attention/attention.h"
#include "longshore/models/ops/average_pool/average_pool.h"
#include "longshore/models/ops/balance_loss.h"
#include "longshore/models/ops/cached_attention/cached_attention.h"
#include "longshore/models/ops/chunk_ids.h"
#include "longshore/models/ops/clamped_swiglu.h"
#include "longshore/models/ops/columns.h"
#include "longshore/models/ops/constant.h"
#include "longshore/models/ops/dequantize/dequantize.h"
#include "longshore/models/ops/distillation_loss.h"
#include "longshore/models/ops/dora/dora.h"
#include "longshore/models/ops/dropout/dropout.h"
#include "longshore/models/ops/embedding/embedding.h"
#include "longshore/models/ops/expert_load.h"
#include "longshore/models/ops/expert_scale.h"
#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/grouped_bias/grouped_bias.h"
#include "longshore/models/ops/grouped_linear/grouped_linear.h"
#include "longshore/models/ops/l2_penalty.h"
#include "longshore/models/ops/layer_norm/layer_norm.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/mean_square_error.h"
#include "longshore/models/ops/permute/permute.h"
#include "longshore/models/ops/policy_gradient_loss.h"
#include "longshore/models/ops/pooled_balance_loss.h"
#include "longshore/models/ops/preference_loss.h"
#include "longshore/models/ops/quantized_linear/quantized_linear.h"
#include "longshore/models/ops/rms_norm/rms_norm.h"
#include "longshore/models/ops/rope/rope.h"
#include "longshore/models/ops/router/router.h"
#include "longshore/models/ops/rows/rows.h"
#include "longshore/models/ops/scale.h"
#include "longshore/models/ops/sequence_log_probs.h"
#include "longshore/models/ops/soft_cap.h"
#include "longshore/models/ops/square_sum/square_sum.h"
#include "longshore/models/ops/sum.h"
#include "longshore/models/ops/swiglu.h"
#include "longshore/models/ops/token_rows/token_rows.h"
#include "longshore/models/ops/top_log_probs.h"
#include "longshore/models/ops/update/adamw.h"
#include "longshore/models/ops/update/lion.h"
#include "longshore/models/ops/update/sgd.h"
#include "longshore/models/ops/weigh_rows.h"

namespace longshore::models {

std::span<const Op* const> all_ops() {
  static const Op* const ops[] = {
      &adamw_op,
      &adapted_norms_op,
      &add_op,
      &add_bias_op,
      &add_bias_grad_op,
      &add_columns_op,
      &add_grouped_bias_op,
      &add_grouped_bias_grad_op,
      &append_to_cache_op,
      &attention_op,
      &attention_grad_op,
      &attention_sinks_grad_op,
      &average_pool_op,
      &average_pool_grad_op,
      &balance_loss_op,
      &balance_loss_grad_op,
      &cached_attention_op,
      &clamped_swiglu_op,
      &clamped_swiglu_grad_op,
      &chosen_loss_op,
      &chosen_loss_grad_op,
      &chunk_ids_op,
      &clear_rows_op,
      &clip_op,
      &combine_tokens_op,
      &combine_tokens_grad_op,
      &constant_op,
      &dequantize_op,
      &distillation_loss_op,
      &distillation_loss_grad_op,
      &dropout_op,
      &embedding_op,
      &embedding_grad_op,
      &expert_load_op,
      &geglu_op,
      &geglu_grad_op,
      &gelu_op,
      &gelu_grad_op,
      &group_by_expert_op,
      &grouped_linear_op,
      &grouped_linear_input_grad_op,
      &grouped_linear_weight_grad_op,
      &l2_penalty_op,
      &l2_penalty_grad_op,
      &layer_norm_op,
      &layer_norm_grad_op,
      &linear_op,
      &linear_input_grad_op,
      &linear_weight_grad_op,
      &linear_cross_entropy_op,
      &linear_cross_entropy_grad_op,
      &lion_op,
      &mean_square_error_op,
      &mean_square_error_grad_op,
      &permute_tokens_op,
      &permute_tokens_grad_op,
      &policy_gradient_loss_op,
      &policy_gradient_loss_grad_op,
      &pooled_balance_loss_op,
      &pooled_balance_loss_grad_op,
      &preference_loss_op,
      &preference_loss_grad_op,
      &quantized_linear_op,
      &replace_rows_op,
      &replace_token_rows_op,
      &replace_token_rows_grad_op,
      &rms_norm_op,
      &rms_norm_grad_op,
      &rope_op,
      &rope_table_op,
      &router_op,
      &router_grad_op,
      &router_sums_op,
      &router_sums_grad_op,
      &router_z_loss_op,
      &router_z_loss_grad_op,
      &scale_op,
      &scale_by_op,
      &scale_columns_op,
      &scale_columns_grad_op,
      &scale_by_expert_op,
      &scale_by_expert_grad_op,
      &sequence_log_probs_op,
      &sequence_log_probs_grad_op,
      &sgd_op,
      &soft_cap_op,
      &soft_cap_grad_op,
      &square_sum_op,
      &sum_in_order_op,
      &sum_op,
      &sum_grad_op,
      &swiglu_op,
      &swiglu_grad_op,
      &take_columns_op,
      &take_rows_op,
      &token_rows_op,
      &token_rows_grad_op,
      &top_log_probs_op,
      &weigh_rows_op,
      &weigh_rows_grad_op,
  };
  return ops;
}

}  // namespace longshore::models
