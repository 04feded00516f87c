# LibTorch, CUDA, CUPTI and NCCL out of a site-packages folder, as imported targets deps::*.
# No find_package(Torch): it rewrites the CUDA flags and architectures. No find_package(CUDAToolkit):
# headers and libcudart must be the wheel's, so that a process holds one CUDA runtime.

set(STEPLENS_TORCH "" CACHE PATH
  "site-packages folder with torch 2.11.0 for CUDA 13, or the torch folder in one; empty: look for it")
set(ENV{STEPLENS_TORCH_CACHE_VARIABLE} "${STEPLENS_TORCH}")
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/cmake/find_torch.sh
  OUTPUT_VARIABLE site ERROR_VARIABLE why OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR " ${why}")  # The space keeps CMake from wrapping the line.
endif()
set(STEPLENS_SITE_PACKAGES ${site})
set(cuda_root ${site}/nvidia/cu13)

# A system nvcc of the same CUDA version, else the one among the wheels.
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  set(nvcc /usr/local/cuda/bin/nvcc)
  set(version "")
  if(EXISTS ${nvcc})
    execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE version ERROR_QUIET)
  endif()
  # lib64: nvcc looks nowhere else for its libraries; setup.sh makes this link.
  if(NOT version MATCHES "release 13\\.0," AND EXISTS ${cuda_root}/lib64)
    set(nvcc ${cuda_root}/bin/nvcc)
    set(version "release 13.0,")
  endif()
  if(NOT version MATCHES "release 13\\.0," OR NOT EXISTS ${nvcc})
    message(FATAL_ERROR " No CUDA 13.0 compiler in /usr/local/cuda nor in ${cuda_root}: run scripts/setup.sh")
  endif()
  set(CMAKE_CUDA_COMPILER ${nvcc})
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 knows no C++20 flag of nvcc.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # deps::cudart, named by each target with kernels.
message(STATUS "LibTorch: ${site}")
message(STATUS "nvcc: ${CMAKE_CUDA_COMPILER}")

# An installed folder finds LibTorch through PREFIX/libtorch, a link to a site-packages folder.
foreach(root $ORIGIN/../libtorch ${site})
  list(APPEND CMAKE_INSTALL_RPATH ${root}/torch/lib ${root}/nvidia/cu13/lib ${root}/nvidia/nccl/lib)
endforeach()

# deps_library(NAME FILE INCLUDES... LINKS... DEFINES...)
function(deps_library name file)
  cmake_parse_arguments(arg "" "" "INCLUDES;LINKS;DEFINES" ${ARGN})
  add_library(deps::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(deps::${name} PROPERTIES IMPORTED_LOCATION ${site}/${file})
  target_include_directories(deps::${name} SYSTEM INTERFACE ${arg_INCLUDES})
  target_link_libraries(deps::${name} INTERFACE ${arg_LINKS})
  target_compile_definitions(deps::${name} INTERFACE ${arg_DEFINES})
endfunction()

# A plain installation of torch lacks nvidia-cuda-crt and -cccl: then those of the nvcc in use serve.
cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH nvcc_folder)
cmake_path(GET nvcc_folder PARENT_PATH nvcc_root)
set(cuda_includes ${cuda_root}/include)
if(NOT EXISTS ${cuda_root}/include/crt)
  list(APPEND cuda_includes ${nvcc_root}/include)
endif()
if(EXISTS ${cuda_root}/include/cccl)
  list(APPEND cuda_includes ${cuda_root}/include/cccl)
else()
  list(APPEND cuda_includes ${nvcc_root}/include/cccl)
endif()
# nvcc searches its own headers after -I folders but before -isystem folders, hence the two forms.
add_library(deps::cuda_headers INTERFACE IMPORTED GLOBAL)
target_include_directories(deps::cuda_headers SYSTEM INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${cuda_includes}>")
list(TRANSFORM cuda_includes PREPEND -I)
target_compile_options(deps::cuda_headers INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_includes}>")

deps_library(cudart nvidia/cu13/lib/libcudart.so.13 LINKS deps::cuda_headers)
deps_library(cupti nvidia/cu13/lib/libcupti.so.13 LINKS deps::cuda_headers)
# Headers alone, and not with every torch: without them the backward pass of cuDNN's attention is
# LibTorch's (kernels/attention).
set(STEPLENS_CUDNN_FRONTEND "")
if(EXISTS ${site}/include/cudnn_frontend.h AND EXISTS ${site}/nvidia/cudnn/include/cudnn.h)
  set(STEPLENS_CUDNN_FRONTEND ${site}/include)
  message(STATUS "cuDNN frontend: ${STEPLENS_CUDNN_FRONTEND}")
else()
  message(STATUS "cuDNN frontend: none (pip install --no-deps nvidia-cudnn-frontend==1.16.0, beside torch)")
endif()
set(torch_include ${site}/torch/include)
deps_library(nccl nvidia/nccl/lib/libnccl.so.2
  INCLUDES ${site}/nvidia/nccl/include LINKS deps::cudart)
deps_library(cublas nvidia/cu13/lib/libcublas.so.13 LINKS deps::cudart)
deps_library(cublaslt nvidia/cu13/lib/libcublasLt.so.13 LINKS deps::cudart)
deps_library(c10 torch/lib/libc10.so INCLUDES ${torch_include})
# FMT_HEADER_ONLY: Torch ships the headers of another fmt than the system's library.
deps_library(torch_cpu torch/lib/libtorch_cpu.so
  INCLUDES ${torch_include} ${torch_include}/torch/csrc/api/include LINKS deps::c10
  DEFINES AT_PER_OPERATOR_HEADERS USE_DISTRIBUTED FMT_HEADER_ONLY=1)
deps_library(c10_cuda torch/lib/libc10_cuda.so LINKS deps::c10 deps::cudart)
deps_library(torch_cuda_so torch/lib/libtorch_cuda.so
  LINKS deps::torch_cpu deps::c10_cuda DEFINES USE_C10D_NCCL)
# Debian's g++ passes --as-needed; libtorch_cuda.so must stay even where no symbol of it is named,
# because it registers the CUDA operators.
add_library(deps::torch_cuda INTERFACE IMPORTED GLOBAL)
target_link_options(deps::torch_cuda INTERFACE
  "LINKER:--push-state,--no-as-needed,${site}/torch/lib/libtorch_cuda.so,--pop-state")
target_link_libraries(deps::torch_cuda INTERFACE deps::torch_cuda_so)
