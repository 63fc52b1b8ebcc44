// Whether the Arrow that was found is one that the module is written for.
#include "data/parquet/arrow_module.cc"

int main() {
  return ull__parquet_module_table() == nullptr;
}
