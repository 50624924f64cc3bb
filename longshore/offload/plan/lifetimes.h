// Liveness of a plan's buffers: when temporaries become live and die, and what a plan does with the
// buffers of its caller.
#pragma once

#include <span>
#include <vector>

#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// Which temporaries become live and which die at each instruction, as indices of Plan::buffers in
// ascending order. Temporaries that no instruction uses are in none of the lists; the caller's
// buffers are always live and are not listed either.
class Lifetimes {
 public:
  explicit Lifetimes(const Plan& plan);

  // The temporaries whose bytes are their own from this instruction on.
  std::span<const int> born_at(size_t instruction) const { return born_.at(instruction); }
  // The temporaries whose bytes are their own up to this instruction, and no longer.
  std::span<const int> dying_at(size_t instruction) const { return dying_.at(instruction); }
  // The persistent temporaries that the previous run left: live before the first instruction.
  std::span<const int> live_in() const { return live_in_; }
  // The persistent temporaries that this run leaves to the next one: live after the last
  // instruction.
  std::span<const int> live_out() const { return live_out_; }

 private:
  // Lists of buffers by instruction: the list of instruction i begins at begins[i] in `buffers` and
  // ends at begins[i + 1].
  struct Lists {
    std::vector<int> begins, buffers;

    std::span<const int> at(size_t instruction) const {
      return std::span(buffers).subspan(begins[instruction],
                                        begins[instruction + 1] - begins[instruction]);
    }
  };
  static Lists by_instruction(const Plan& plan, int Buffer::*instruction);

  Lists born_, dying_;
  std::vector<int> live_in_, live_out_;
};

// What a plan does with a buffer of its caller.
struct CallerUse {
  bool is_argument = false;  // what it held before counts: it is read before it is written, or kept
  int first_write = -1;      // instruction; -1: the plan does not write it

  bool is_output() const { return first_write >= 0; }
  bool is_alias() const { return is_argument && is_output(); }
};
std::vector<CallerUse> caller_uses(const Plan& plan);  // by buffer

}  // namespace longshore::offload
