// cuDNN's descriptors as the emulated GPU keeps them, and graphs made of them: computed op by op in
// float32, each tensor rounded to its own type.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace longshore::emulated {

struct Descriptor;
using SharedDescriptor = std::shared_ptr<Descriptor>;

// Of an attribute: descriptors, or else bytes.
struct Value {
  std::vector<char> bytes;
  std::vector<SharedDescriptor> descriptors;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, Value> values;

  const Value& at(cudnnBackendAttributeName_t name) const {
    const auto found = values.find(name);
    if (found == values.end())
      throw std::runtime_error("a descriptor of type " + std::to_string(type) + " has no " +
                               std::to_string(name));
    return found->second;
  }
  bool has(cudnnBackendAttributeName_t name) const { return values.contains(name); }
  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const std::vector<char>& bytes = at(name).bytes;
    std::vector<T> result(bytes.size() / sizeof(T));
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  template <class T>
  T one(cudnnBackendAttributeName_t name) const {
    return all<T>(name).at(0);
  }
  const Descriptor& child(cudnnBackendAttributeName_t name) const {
    return *at(name).descriptors.at(0);
  }
};

// Of an operation graph, each tensor's address by its unique id.
using Operands = std::map<int64_t, void*>;

// What it holds as numbers, not as addresses, is read at once: the work that it returns may be done
// at any time. Throws std::runtime_error where the graph has what is not emulated here, as does
// that.
std::function<void()> graph_work(SharedDescriptor graph, Operands operands);

}  // namespace longshore::emulated
