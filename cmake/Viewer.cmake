# Libraries of the viewer: deps::imgui with its GLFW and OpenGL backends, deps::stb, deps::epoxy,
# deps::egl and glfw. Configuration stops here if one is missing.

set(STEPLENS_IMGUI_SOURCE "" CACHE PATH
  "Folder with Dear ImGui's sources, to build against another version than the installed one.")

# steplens_viewer_dependency(NAME PACKAGE HEADER ARCHIVE): notes PACKAGE as missing, or makes deps::NAME.
macro(steplens_viewer_dependency name package header archive)
  find_path(STEPLENS_${name}_INCLUDE ${header} PATH_SUFFIXES imgui stb)
  find_library(STEPLENS_${name}_LIBRARY NAMES ${archive} ${name})
  if(STEPLENS_${name}_INCLUDE AND STEPLENS_${name}_LIBRARY)
    steplens_static_dependency(${name} ${header} ${archive})
  else()
    list(APPEND missing_packages ${package})
  endif()
endmacro()

set(missing_packages "")
find_package(glfw3 3.3 QUIET)
if(NOT glfw3_FOUND)
  list(APPEND missing_packages libglfw3-dev)
endif()
steplens_viewer_dependency(stb libstb-dev stb_image_write.h libstb.a)
steplens_viewer_dependency(epoxy libepoxy-dev epoxy/gl.h libepoxy.so)
steplens_viewer_dependency(EGL libegl-dev EGL/egl.h libEGL.so)
if(NOT STEPLENS_IMGUI_SOURCE)
  steplens_viewer_dependency(imgui libimgui-dev imgui.h libimgui.a)
endif()
if(missing_packages)
  list(JOIN missing_packages " " missing_packages)
  message(FATAL_ERROR "steplens-viewer needs packages that are not installed:\n"
    "  apt-get install --no-install-recommends ${missing_packages}\n"
    "or, to build without the viewer, configure with -DSTEPLENS_VIEWER=OFF.")
endif()

if(STEPLENS_IMGUI_SOURCE)
  set(folder ${STEPLENS_IMGUI_SOURCE})
  if(NOT EXISTS ${folder}/backends/imgui_impl_glfw.cpp)
    message(FATAL_ERROR "STEPLENS_IMGUI_SOURCE is '${folder}': imgui.h and backends/ must be in it.")
  endif()
  file(GLOB imgui_sources ${folder}/imgui*.cpp)
  list(FILTER imgui_sources EXCLUDE REGEX "/imgui_demo\\.cpp$")
  add_library(imgui_source STATIC EXCLUDE_FROM_ALL ${imgui_sources}
    ${folder}/backends/imgui_impl_glfw.cpp ${folder}/backends/imgui_impl_opengl3.cpp)
  target_include_directories(imgui_source SYSTEM PUBLIC ${folder})
  target_link_libraries(imgui_source PUBLIC glfw ${CMAKE_DL_LIBS})
  add_library(deps::imgui ALIAS imgui_source)
else()
  # Debian's archive takes the font rasteriser from stb.
  set_property(TARGET deps::imgui APPEND PROPERTY INTERFACE_LINK_LIBRARIES deps::stb glfw ${CMAKE_DL_LIBS})
endif()
