// Attention of a block of rows over one chunk of keys. Scores are base-2 logarithms of weights.
#pragma once

#include <cmath>
#include <memory>

#include "call.h"
#include "pack.h"

constexpr float LOG2_E = 1.44269504f;

// What one thread works in.
template <typename Element>
struct Scratch {
    alignas(64) Element query[MAX_BLOCK_ROWS * MAX_HEAD_DIM];
    alignas(64) Element keys[CHUNK * MAX_HEAD_DIM];
    alignas(64) Element values[CHUNK * MAX_HEAD_DIM];
    alignas(64) Element weights[TILE_ROWS * CHUNK];
    alignas(64) float scores[TILE_ROWS * CHUNK];
    alignas(64) uint32_t padded_keys[CHUNK * MAX_HEAD_DIM];
    alignas(64) uint32_t padded_values[CHUNK * MAX_HEAD_DIM];
    alignas(64) float chunk[MAX_BLOCK_ROWS / TILE_ROWS * Partial::floats(MAX_HEAD_DIM)];
    alignas(64) float whole[MAX_BLOCK_ROWS / TILE_ROWS * Partial::floats(MAX_HEAD_DIM)];

    static Scratch& own() {
        static thread_local std::unique_ptr<Scratch> mine(new Scratch());
        return *mine;
    }
};

// Rows [begin, end) of one segment and key head.
template <typename Stored>
class Block {
    typedef typename ElementOf<Stored>::type Element;
    typedef std::conditional_t<std::is_same_v<Element, Pair>, Bf16, float> Weight;
    static constexpr int TAKEN = ElementOf<Stored>::depth;

   public:
    Block(const Step& step, const Layer& layer, const Extent& extent, int kv_head)
        : step(step),
          layer(layer),
          extent(extent),
          kv_head(kv_head),
          width(rounded_up(layer.head_dim)),
          scratch(Scratch<Element>::own()) {
        for (int row = extent.begin; row < extent.end; ++row) {
            uint32_t padded[MAX_HEAD_DIM];
            const Stored* from = copy(static_cast<const Stored*>(layer.query) + offset(row), padded);
            Element* to = scratch.query + (row - extent.begin) * depth();
            for (int element = 0; element < depth(); element += LANES) {
                const Words words = load_elements(from, element, Element{});
                std::memcpy(to + element, &words, sizeof words);
            }
        }
    }

    Partial room() const { return {scratch.chunk, width}; }
    Partial whole() const { return {scratch.whole, width}; }

    // The partial results of the rows' tiles over the keys of one chunk.
    void attend(const Multiplier& multiplier, int chunk, Partial results) const {
        const int base = chunk * CHUNK;
        const int from = std::max(0, rounded_down(extent.first_seen(extent.begin) - base));
        pack(base, from, std::min(CHUNK, extent.position(extent.end - 1) + 1 - base));
        for (int tile = 0; tile < extent.num_tiles(); ++tile) attend_tile(multiplier, tile, base, results.tile(tile));
    }

    // Folds the next chunk's results into the whole.
    void take(Partial results) const {
        for (int tile = 0; tile < extent.num_tiles(); ++tile)
            fold(whole().tile(tile), results.tile(tile), extent.rows(tile));
    }

    void clear() const {
        for (int tile = 0; tile < extent.num_tiles(); ++tile) whole().tile(tile).clear();
    }

    // Writes the output once all chunks are folded.
    void finish() const {
        for (int row = extent.begin; row < extent.end; ++row) finish_row(row);
    }

   private:
    const Step& step;
    const Layer& layer;
    const Extent& extent;
    const int kv_head, width;
    Scratch<Element>& scratch;

    int depth() const { return width / TAKEN; }
    int head(int row) const { return kv_head * extent.heads + row % extent.heads; }

    long offset(int row) const {
        const long place = extent.segment->start + row / extent.heads;
        return (place * layer.num_heads + head(row)) * layer.head_dim;
    }

    // The row itself, or a copy filled up with zeros where its length is no multiple of STEP.
    const Stored* copy(const Stored* row, uint32_t* room) const {
        if (layer.head_dim == width) return row;
        Stored* padded = reinterpret_cast<Stored*>(room);
        std::memcpy(padded, row, layer.head_dim * sizeof(Stored));
        std::memset(padded + layer.head_dim, 0, (width - layer.head_dim) * sizeof(Stored));
        return padded;
    }

    // Keys [from, to) of the chunk as operands; up to a multiple of STEP what follows counts as zeros, be it NaN.
    void pack(int base, int from, int to) const {
        const Stored *keys[CHUNK], *values[CHUNK];
        locate(base, from, to, keys, values);
        pack_keys<Element>(keys, from, rounded_up(to), depth(), key_panels());
        pack_values<Element>(values, from, rounded_up(to), width, value_panels());
    }

    Rows<Element> key_panels() const { return {scratch.keys, depth() * LANES}; }
    Rows<Element> value_panels() const { return {scratch.values, CHUNK / TAKEN * LANES}; }

    // Where the rows of keys [from, to) are; then zeros.
    void locate(int base, int from, int to, const Stored** keys, const Stored** values) const {
        alignas(64) static const Stored zeros[MAX_HEAD_DIM] = {};
        const long stride = static_cast<long>(layer.num_kv_heads) * layer.head_dim;
        const int32_t* table = step.blocks + extent.segment->blocks;
        for (int key = from; key < to;) {
            const int index = (base + key) / step.block_size, place = (base + key) % step.block_size;
            const long slot = static_cast<long>(table[index]) * step.block_size + place;
            const long place_of_head = slot * stride + kv_head * layer.head_dim;
            const Stored* key_row = static_cast<const Stored*>(layer.keys) + place_of_head;
            const Stored* value_row = static_cast<const Stored*>(layer.values) + place_of_head;
            for (const int end = std::min(to, key + step.block_size - place); key < end; ++key) {
                keys[key] = copy(key_row, scratch.padded_keys + key * width);
                values[key] = copy(value_row, scratch.padded_values + key * width);
                key_row += stride;
                value_row += stride;
            }
        }
        for (int key = to; key < rounded_up(to); ++key) keys[key] = values[key] = zeros;
    }

    void attend_tile(const Multiplier& multiplier, int tile, int base, Partial result) const {
        const int rows = extent.rows(tile), first = extent.begin + tile * TILE_ROWS;
        const int from = std::max(0, rounded_down(extent.first_seen(first) - base));
        const int to = std::min(CHUNK, rounded_up(extent.position(first + rows - 1) + 1 - base));
        if (from >= to) return result.clear();
        const Rows<const Element> query = {scratch.query + tile * TILE_ROWS * depth(), depth()};
        const Rows<const Element> keys = {key_panels()[from / LANES], key_panels().stride};
        const Rows<float> scores = {scratch.scores + from, CHUNK};
        multiplier.multiply<Element>(query, keys, scores, rows, depth(), (to - from) / LANES);
        for (int row = 0; row < rows; ++row) hide(first + row, scratch.scores + row * CHUNK, base, from, to);
        find_greatest(rows, from, to, result);
        weigh(rows, from, to, result);
        const Rows<const Element> weights = {scratch.weights + from / TAKEN, CHUNK / TAKEN};
        const Rows<const Element> values = {value_panels()[0] + from / TAKEN * LANES, value_panels().stride};
        multiplier.multiply<Element>(weights, values, {result.values, width}, rows, (to - from) / TAKEN, width / LANES);
    }

    // Caps a row's scores of keys [from, to) of the chunk, and makes those of keys that it may not see -infinity.
    void hide(int row, float* scores, int base, int from, int to) const {
        if (layer.softcap != 0)
            for (int key = from; key < to; key += LANES) {
                const Floats capped = tanh(load(scores + key) * all(layer.scale / layer.softcap));
                store(scores + key, capped * all(layer.softcap / layer.scale));
            }
        const int seen = extent.first_seen(row) - base, unseen = extent.position(row) + 1 - base;
        if (seen <= from && to <= unseen) return;
        for (int key = from; key < to; key += LANES) {
            if (seen <= key && key + LANES <= unseen) continue;
            const Ints keys = counting() + key;
            store(scores + key, (keys >= seen) & (keys < unseen) ? load(scores + key) : all(-INFINITY));
        }
    }

    // The greatest scores of the tile's rows over keys [from, to), as logarithms.
    void find_greatest(int rows, int from, int to, Partial result) const {
        Floats greatest[TILE_ROWS];
        for (int row = 0; row < TILE_ROWS; ++row) {
            const int end = row < rows ? to : from;
            const float* scores = scratch.scores + row * CHUNK;
            Floats most = all(-FLT_MAX);
            for (int key = from; key < end; key += LANES) most = maximum(load(scores + key), most);
            greatest[row] = most;
        }
        for (int row = 0; row < TILE_ROWS; row += LANES) {
            const Floats scaled = across(greatest + row, maximum) * all(layer.scale * LOG2_E);
            store(result.greatest() + row, maximum(scaled, all(-FLT_MAX)));
        }
    }

    // From scores to weights and their sums.
    void weigh(int rows, int from, int to, Partial result) const {
        const Floats scale = all(layer.scale * LOG2_E);
        Floats sums[TILE_ROWS];
        for (int row = 0; row < TILE_ROWS; ++row) {
            const int end = row < rows ? to : from;
            const float* scores = scratch.scores + row * CHUNK;
            Weight* weights = reinterpret_cast<Weight*>(scratch.weights) + row * CHUNK;
            const Floats down = all(-result.greatest()[row]);
            Floats sum{};
            for (int key = from; key < end; key += 2 * LANES) {
                const Floats first = exp2(fma(load(scores + key), scale, down));
                const Floats second = exp2(fma(load(scores + key + LANES), scale, down));
                sum = sum + first + second;
                store(weights + key, first, second);
            }
            sums[row] = sum;
        }
        for (int row = 0; row < TILE_ROWS; row += LANES) store(result.sums() + row, across(sums + row, add));
    }

    void finish_row(int row) const {
        const Partial result = whole().tile((row - extent.begin) / TILE_ROWS);
        const int place = (row - extent.begin) % TILE_ROWS;
        float factor = 1 / result.sums()[place];
        if (layer.sinks) {
            const Floats sink = all(layer.sinks[head(row)] * LOG2_E), own = all(result.greatest()[place]);
            const Floats top = maximum(sink, own), kept = exp2(own - top);
            factor = (kept / fma(all(result.sums()[place]), kept, exp2(sink - top)))[0];
        }
        Stored output[MAX_HEAD_DIM];
        for (int column = 0; column < width; column += STEP) {
            Floats columns[STEP / LANES];
            for (int i = 0; i < STEP / LANES; ++i)
                columns[i] = load(result.values + place * width + column + i * LANES) * all(factor);
            in_order<Element>(columns);
            for (int i = 0; i < STEP / LANES; ++i) store(output + column + i * LANES, columns[i]);
        }
        std::memcpy(static_cast<Stored*>(layer.output) + offset(row), output, layer.head_dim * sizeof(Stored));
    }
};
