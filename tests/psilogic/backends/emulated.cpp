// One call of a kernel, without Python, for a processor that is emulated: from standard input to standard output.
//
// test_emulated_processor.py compiles it, and sends what a kernel in module.cpp gets: numbers and the entries of the
// table, each a number of blocks of memory. What the blocks hold afterwards is the answer.

#include <cstdio>
#include <deque>

#include "step.h"

namespace {

template <class Value> Value read() {
    Value value;
    if (std::fread(&value, sizeof value, 1, stdin) != 1) std::exit(1);
    return value;
}

struct Call {
    Index kernel, dtype, tensors, entries;
};

using Block = std::vector<double>;  // aligned for every type

template <class Tables> Tables tables_of(const std::vector<Index> &table) {
    Tables tables;
    if (table.size() * sizeof(Index) != sizeof tables) std::exit(2);
    std::memcpy(&tables, table.data(), sizeof tables);
    return tables;
}

template <class T> void run_for(const Call &call, const std::vector<Index> &table) {
    if (call.kernel == 0)
        any_row_sums<T>(call.tensors, 1, tables_of<RowTables>(table));
    else
        (call.kernel == 1 ? decided_update<T> : step<T>)(call.tensors, 1, tables_of<UpdateTables>(table));
}

}  // namespace

int main() {
    const Call call = read<Call>();
    std::deque<Block> memory;
    std::deque<std::vector<Index>> lists;  // the addresses of tensors
    std::vector<Index> sizes, table;
    for (Index entry = 0; entry < call.entries; ++entry) {
        const auto is_list = read<Index>(), blocks = read<Index>();
        std::vector<Index> addresses;
        for (Index k = 0; k < blocks; ++k) {
            sizes.push_back(read<Index>());
            Block &block = memory.emplace_back(sizes.back() / sizeof(double) + 1);
            if (std::fread(block.data(), 1, sizes.back(), stdin) != std::size_t(sizes.back())) return 1;
            addresses.push_back(reinterpret_cast<Index>(block.data()));
        }
        if (is_list) lists.push_back(addresses), table.push_back(reinterpret_cast<Index>(lists.back().data()));
        else table.push_back(blocks ? addresses[0] : 0);
    }
    const std::array kernels{run_for<bfloat16>, run_for<float16>, run_for<float>, run_for<double>};  // as in module.cpp
    kernels[call.dtype](call, table);
    for (std::size_t k = 0; k < sizes.size(); ++k) std::fwrite(memory[k].data(), 1, sizes[k], stdout);
}
