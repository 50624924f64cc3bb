// A backend that does what another does, for tests that change or count a part of it.
#pragma once

#include <memory>
#include <utility>

#include "longshore/offload/backends/backend.h"

namespace longshore::offload {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(Backend& other) : other_(other) {}
  explicit ForwardingBackend(std::unique_ptr<Backend> other)
      : owned_(std::move(other)), other_(*owned_) {}

  models::Target target() const override { return other_.target(); }
  std::byte* allocate(MemoryKind kind, int64_t bytes) override {
    return other_.allocate(kind, bytes);
  }
  void free(MemoryKind kind, std::byte* memory) override { other_.free(kind, memory); }
  int64_t available_bytes(MemoryKind kind) override { return other_.available_bytes(kind); }
  int64_t used_device_bytes() override { return other_.used_device_bytes(); }
  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    other_.run(lane, op, call);
  }
  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    other_.copy(lane, from, to);
  }
  void record(Lane lane, int event) override { other_.record(lane, event); }
  void wait(Lane lane, int event) override { other_.wait(lane, event); }
  void synchronize() override { other_.synchronize(); }
  void start_recording() override { other_.start_recording(); }
  LaneSpans stop_recording() override { return other_.stop_recording(); }
  void write(MemoryKind kind, std::byte* to, const void* from, int64_t bytes) override {
    other_.write(kind, to, from, bytes);
  }
  void read(MemoryKind kind, void* to, const std::byte* from, int64_t bytes) override {
    other_.read(kind, to, from, bytes);
  }
  void write_zeros(MemoryKind kind, std::byte* to, int64_t bytes) override {
    other_.write_zeros(kind, to, bytes);
  }

 private:
  std::unique_ptr<Backend> owned_;
  Backend& other_;
};

}  // namespace longshore::offload
