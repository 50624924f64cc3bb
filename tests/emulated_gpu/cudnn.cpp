// cuDNN of the emulated GPU: descriptors keep what they are told, and engines are all alike.
#include <cudnn.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/cudnn_graph.h"
#include "tests/emulated_gpu/streams.h"

using longshore::emulated::Descriptor;
using longshore::emulated::Device;
using longshore::emulated::graph_work;
using longshore::emulated::Operands;
using longshore::emulated::SharedDescriptor;
using longshore::emulated::stream_of;
using longshore::emulated::Value;

namespace {

SharedDescriptor& shared(cudnnBackendDescriptor_t handle) {
  return *static_cast<SharedDescriptor*>(handle);
}

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return sizeof(void*);
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    default:
      return 4;
  }
}

SharedDescriptor graph_of(const Descriptor& plan) {
  return plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
      .child(CUDNN_ATTR_ENGINECFG_ENGINE)
      .at(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)
      .descriptors.at(0);
}

// Callers may name one of them, and get what they all are.
constexpr int64_t kEngines = 32;

struct Handle {
  cudaStream_t stream = nullptr;
};

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the emulated GPU"; }
void cudnnGetLastErrorString(char* text, size_t bytes) {
  if (bytes > 0) text[0] = 0;
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Handle*>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = reinterpret_cast<Handle*>(handle)->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* handle) {
  *handle = new SharedDescriptor(std::make_shared<Descriptor>(Descriptor{type, {}}));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  delete static_cast<SharedDescriptor*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  Value value;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    auto* handles = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (int64_t i = 0; i < count; ++i) value.descriptors.push_back(shared(handles[i]));
  } else {
    const auto* bytes = static_cast<const char*>(elements);
    value.bytes.assign(bytes, bytes + static_cast<size_t>(count) * size_of(type));
  }
  shared(handle)->values[name] = std::move(value);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most,
                                       int64_t* count, void* elements) {
  auto say_count = [&](int64_t found) {
    if (count) *count = found;
    return CUDNN_STATUS_SUCCESS;
  };
  const Descriptor& descriptor = *shared(handle);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      if (most > 0 && elements) {
        auto engine = std::make_shared<Descriptor>(Descriptor{CUDNN_BACKEND_ENGINE_DESCRIPTOR, {}});
        engine->values[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
            descriptor.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        shared(*static_cast<cudnnBackendDescriptor_t*>(elements))
            ->values[CUDNN_ATTR_ENGINECFG_ENGINE] = {{}, {engine}};
      }
      return say_count(1);
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      if (most > 0 && elements)
        shared(*static_cast<cudnnBackendDescriptor_t*>(elements)) =
            descriptor.at(name).descriptors.at(0);
      return say_count(1);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *static_cast<int64_t*>(elements) = 0;
      return say_count(1);
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
      *static_cast<int32_t*>(elements) = 0;
      return say_count(1);
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      *static_cast<int64_t*>(elements) = kEngines;
      return say_count(1);
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
    case CUDNN_ATTR_ENGINE_KNOB_INFO:
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      return say_count(0);
    default:
      std::fprintf(stderr, "emulated GPU: cudnnBackendGetAttribute of %d, type %d\n", name, type);
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) try {
  const Descriptor& given = *shared(pack);
  const auto uids = given.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = given.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  Operands operands;
  for (size_t i = 0; i < uids.size(); ++i) operands[uids[i]] = pointers[i];
  Device::get().enqueue(stream_of(reinterpret_cast<Handle*>(handle)->stream),
                        graph_work(graph_of(*shared(plan)), std::move(operands)));
  return CUDNN_STATUS_SUCCESS;
} catch (const std::exception& error) {
  std::fprintf(stderr, "emulated cuDNN: %s\n", error.what());
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // extern "C"
