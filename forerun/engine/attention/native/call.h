// What one call is told, and which keys a block of its rows may see.
//
// A row here is one query head at one position; those that share a key head are attended together, position by
// position.
#pragma once

#include <algorithm>

#include "partial.h"

constexpr int CHUNK = 128;           // keys, cut at fixed positions
constexpr int MAX_BLOCK_ROWS = 256;  // share one packing of a chunk

// Rows [start, start + query_len) of the batch are positions [context_len - query_len, context_len); the sequence's
// blocks begin at `blocks` of the step's table.
struct Segment {
    int32_t start, query_len, context_len, blocks;
};

// Calls body(data) in num_threads threads: GOMP_parallel of the OpenMP runtime that torch runs in, whose threads are
// there already; a second runtime's would fight with them.
typedef void (*Parallel)(void (*body)(void*), void* data, unsigned num_threads, unsigned flags);

// What the layers of one step have in common. parallel: null where there is one thread.
struct Step {
    const Segment* segments;
    const int32_t* blocks;
    Parallel parallel;
    int32_t num_segments, block_size, num_threads;
};

// query, output `[rows, num_heads, head_dim]`; keys, values `[blocks, block_size, num_kv_heads, head_dim]`; sinks
// `[num_heads]` or null. A window or a softcap of 0 is off.
struct Layer {
    const void* query;
    void* output;
    const void* keys;
    const void* values;
    const float* sinks;
    float scale, softcap;
    int32_t window, num_heads, num_kv_heads, head_dim;
};

// All that a layer needs to write its keys and values and attend; what a step's handle points to. step: null where
// Python attends. keys, values: of each layer `[slots, num_kv_heads, head_dim]`; slots `[num_rows]`; bytes of a number.
struct PagedStep {
    const Step* step;
    char* const* keys;
    char* const* values;
    const int64_t* slots;
    int32_t num_rows, num_kv_heads, head_dim, bytes;
};

// Rows [begin, end) of one segment and key head.
struct Extent {
    const Segment* segment;
    int heads, window, begin, end;

    int position(int row) const { return segment->context_len - segment->query_len + row / heads; }
    int first_seen(int row) const { return window ? std::max(0, position(row) - window + 1) : 0; }
    int first_chunk() const { return first_seen(begin) / CHUNK; }
    int end_chunk() const { return position(end - 1) / CHUNK + 1; }
    int num_tiles() const { return (end - begin + TILE_ROWS - 1) / TILE_ROWS; }
    int rows(int tile) const { return std::min(TILE_ROWS, end - begin - tile * TILE_ROWS); }
};
