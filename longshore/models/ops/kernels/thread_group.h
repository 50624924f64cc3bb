// A thread group stands for the threads that run the body of a kernel. A body is written once,
// without thread numbers: on a GPU a block of threads runs it (cuda_group.cuh), in tests one thread
// that emulates them all.
//
// A body is called as body(group, index) for every block of a launch; `group` is the block's
// threads. What a group offers, be it a whole block or a part of one:
//
//   threads()                  the number of threads
//   for_each(count, f)         f(i) for i in [0, count). The same thread has the same i's for every
//                              count and in `reduce`, so it may read what it wrote itself
//   reduce(count, start, add, combine)
//                              every thread folds its i's by add(value, i) into a copy of `start`,
//                              then combine(value, other) joins the values. The order is fixed, and
//                              all threads get the same value
//   once(f)                    f() by the thread that has i = 0
//   own<T>()                   room for one T for each thread: room[i], where i < threads() is what
//                              for_each and reduce give
//   sync()                     makes what the group's threads wrote visible to all of them
//
// And what only the group of a whole block offers:
//
//   split<kLanes>(f)           f(part, number) for each of its parts of kLanes threads, at the same
//                              time. A part is a group
//   scratch<T>()               the fast memory that the launch asked for
//
// A launcher is called as launcher(body, blocks, scratch_bytes). It also has `threads<Body>()`, the
// threads of that body's blocks, at most Body::kThreads, and zero(to, bytes), copy(to, from, bytes)
// in the launches' order. Everything that a kernel's host side decides (blocks, scratch, which
// variant of a body) is a function over launchers, so that tests run that too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "longshore/base/device.h"
#include "longshore/base/round_up.h"

namespace longshore::models {

inline constexpr int kBlockThreads = 256;
// What every GPU gives a block without being asked; reductions take a little of it.
inline constexpr int64_t kMaxScratchBytes = 46 << 10;

// The sum of f(i); its type is what f gives.
template <class Group, class F>
LONGSHORE_BODY auto sum(Group& group, int64_t count, F f) {
  using T = decltype(f(int64_t{}));
  return group.reduce(
      count, T{}, [&](T& value, int64_t i) { value += f(i); },
      [](T& value, const T& other) { value += other; });
}

// The largest f(i), and at least `least`.
template <class Group, class T, class F>
LONGSHORE_BODY T max(Group& group, int64_t count, T least, F f) {
  auto take = [](T& value, const T& other) { value = other > value ? other : value; };
  return group.reduce(
      count, least, [&](T& value, int64_t i) { take(value, f(i)); }, take);
}

}  // namespace longshore::models
