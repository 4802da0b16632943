// The product of a block without a matrix unit: four bytes times four bytes at a time, in this machine's vectors.
#pragma once

#include "rows.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)

// Instructions take weights from 0 to 255: 128 is added to each, and 128 times a row's sum subtracted in the end.
struct Dot {
    typedef __m512i Vector;
    static constexpr int max_rows = 6, offset = 128;
    static Vector weights(const int8_t* from) {
        return _mm512_xor_si512(_mm512_loadu_si512(from), _mm512_set1_epi8(-128));
    }
    static Vector all(int32_t quad) { return _mm512_set1_epi32(quad); }
    static Vector add(Vector sum, Vector weights, Vector rows) { return _mm512_dpbusd_epi32(sum, weights, rows); }
};

#elif defined(__AVXVNNI__)

struct Dot {
    typedef __m256i Vector;
    static constexpr int max_rows = 2, offset = 128;
    static Vector weights(const int8_t* from) {
        return _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const Vector*>(from)), _mm256_set1_epi8(-128));
    }
    static Vector all(int32_t quad) { return _mm256_set1_epi32(quad); }
    static Vector add(Vector sum, Vector weights, Vector rows) { return _mm256_dpbusd_avx_epi32(sum, weights, rows); }
};

#elif defined(__AVX2__)

// |w| times x with w's sign: two such products of at most 127 * 127 fit into 16 bits.
struct Dot {
    typedef __m256i Vector;
    static constexpr int max_rows = 2, offset = 0;
    static Vector weights(const int8_t* from) { return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from)); }
    static Vector all(int32_t quad) { return _mm256_set1_epi32(quad); }
    static Vector add(Vector sum, Vector weights, Vector rows) {
        const Vector pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(rows, weights));
        return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
};

#else

struct Dot {
    struct Vector {
        int32_t lanes[4];
    };
    static constexpr int max_rows = 2, offset = 0;
    static Vector weights(const int8_t* from) {
        Vector result;
        std::memcpy(&result, from, sizeof result);
        return result;
    }
    static Vector all(int32_t quad) { return {{quad, quad, quad, quad}}; }
    static Vector add(Vector sum, const Vector& weights, const Vector& rows) {
        int8_t w[sizeof(Vector)], x[sizeof(Vector)];
        std::memcpy(w, &weights, sizeof w);
        std::memcpy(x, &rows, sizeof x);
        for (int i = 0; i < static_cast<int>(sizeof(Vector)); ++i) sum.lanes[i / QUAD] += w[i] * x[i];
        return sum;
    }
};

#endif

constexpr int DOT_COLUMNS = sizeof(Dot::Vector) / QUAD;
constexpr int DOT_VECTORS = 2;  // of columns, for every row that is read

inline int32_t quad_at(const int8_t* codes) {
    int32_t quad;
    std::memcpy(&quad, codes, sizeof quad);
    return quad;
}

// Rows [row, row + R) times columns [column, column + DOT_VECTORS * DOT_COLUMNS).
template <int R, int LINES>
inline void dot_strip(const CodedRows& block, int row, const int8_t* weights, int column, Ahead<LINES> ahead,
                      Sums& sums) {
    Dot::Vector running[2][R][DOT_VECTORS];
    for (int half : {HIGH, LOW})
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < DOT_VECTORS; ++v)
                running[half][r][v] = Dot::all(-Dot::offset * block.facts[row + r].sums[half]);
    for (int step = 0; step < block.steps; ++step) {
        const int8_t* of_step = weights + static_cast<long>(step) * STEP_BYTES;
        if (row == 0 && column == 0) ahead.ask(step);
        const int8_t* codes = block.at(step, HIGH, row);
        for (int quad = 0; quad < DEPTH; quad += QUAD) {
            Dot::Vector w[DOT_VECTORS];
            for (int v = 0; v < DOT_VECTORS; ++v) {
                const int first = column + v * DOT_COLUMNS;
                w[v] = Dot::weights(of_step + first / TILE_COLUMNS * TILE_BYTES + quad * TILE_COLUMNS +
                                    first % TILE_COLUMNS * QUAD);
            }
            for (int half : {HIGH, LOW})
                for (int r = 0; r < R; ++r) {
                    const auto x = Dot::all(quad_at(codes + half * block.half_bytes() + r * DEPTH + quad));
                    for (int v = 0; v < DOT_VECTORS; ++v) running[half][r][v] = Dot::add(running[half][r][v], w[v], x);
                }
        }
    }
    for (int half : {HIGH, LOW})
        for (int r = 0; r < R; ++r)
            std::memcpy(&sums[half][row + r][column], running[half][r], sizeof running[half][r]);
}

// What is left below R rows is taken by ever smaller strips.
template <int R, int LINES>
inline void dot_strips(const CodedRows& block, int row, const int8_t* weights, Ahead<LINES> ahead, Sums& sums) {
    for (; row + R <= block.num_rows; row += R)
        for (int column = 0; column < BLOCK_COLUMNS; column += DOT_VECTORS * DOT_COLUMNS)
            dot_strip<R>(block, row, weights, column, ahead, sums);
    if constexpr (R > 1) dot_strips<R - 1>(block, row, weights, ahead, sums);
}

template <int LINES>
inline void multiply_dots(const CodedRows& block, const int8_t* weights, Ahead<LINES> ahead, Sums& sums) {
    dot_strips<Dot::max_rows>(block, 0, weights, ahead, sums);
}
