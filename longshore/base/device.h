// Marks of functions that are compiled for the host and, by nvcc, for a GPU as well.
#pragma once

#ifdef __CUDACC__
#define LONGSHORE_DEVICE __host__ __device__
#define LONGSHORE_BODY __device__  // of a kernel: what calls a group of threads
#define LONGSHORE_PRAGMA(text) _Pragma(#text)
#define LONGSHORE_UNROLL(count) LONGSHORE_PRAGMA(unroll count)
#else
#define LONGSHORE_DEVICE
#define LONGSHORE_BODY
#define LONGSHORE_UNROLL(count)
#endif

// Always inlined, so that vectorised loops compile them for their own instruction set.
#define LONGSHORE_INLINE LONGSHORE_DEVICE inline __attribute__((always_inline))
