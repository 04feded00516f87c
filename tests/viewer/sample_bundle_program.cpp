// Writes the sample bundle into the folder that is named: for tests that start the viewer.

#include <cstdio>

#include "tests/viewer/sample_bundle.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: viewer_sample_bundle FOLDER\n", stderr);
    return 2;
  }
  steplens::write_sample_bundle(argv[1]);
  return 0;
}
