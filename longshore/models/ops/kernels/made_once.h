// made_once() makes and keeps what libraries want made once per description: primitives, plans.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace longshore::models {

// The value of that key, for all threads: make() gives it as std::unique_ptr<const Value> when it
// is asked for first. One table per Key.
template <class Value, class Key, class Make>
const Value& made_once(const Key& key, Make make) {
  // A thread asks for the same few again and again; the shared table is behind a lock.
  thread_local std::map<Key, const Value*> known;
  if (auto found = known.find(key); found != known.end()) return *found->second;

  // Neither is ever freed: when a program ends, a driver may be gone before its statics.
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<Key, std::unique_ptr<const Value>>;
  std::lock_guard lock(mutex);
  auto entry = all.find(key);
  if (entry == all.end()) entry = all.emplace(key, make()).first;
  return *(known[key] = entry->second.get());
}

}  // namespace longshore::models
