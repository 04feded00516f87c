# cmake -D SOURCE_DIR= -D OUTPUT= -D VERSION= -D COMPILER= -D BUILD_TYPE= -P write_build_info.cmake
# Writes OUTPUT from harness/build_info.cpp.in, and touches it only if it changes.
set(git_sha "$ENV{STEPLENS_GIT_SHA}")  # For sources that travel without their .git folder.
set(is_dirty true)                     # Sources of unknown origin count as changed.
if(git_sha MATCHES "^[0-9a-f]+$")
  set(is_dirty false)
elseif(git_sha MATCHES "^([0-9a-f]+)-dirty$")
  set(git_sha ${CMAKE_MATCH_1})
elseif(NOT git_sha STREQUAL "")
  message(FATAL_ERROR "STEPLENS_GIT_SHA is '${git_sha}'; allowed: a commit's hash, or it followed by -dirty")
else()
  set(git_sha unknown)
  # .git here: else an enclosing repository of somebody else would answer.
  if(EXISTS ${SOURCE_DIR}/.git)
    execute_process(COMMAND git rev-parse --verify --quiet HEAD WORKING_DIRECTORY ${SOURCE_DIR}
      OUTPUT_VARIABLE sha OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE sha_status)
    # Published results are measured with the commit before the one that adds them.
    execute_process(COMMAND git --no-optional-locks status --porcelain -- . ":(exclude)reports/published"
      WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE changes ERROR_QUIET RESULT_VARIABLE status)
    if(sha_status EQUAL 0)
      set(git_sha ${sha})
      if(status EQUAL 0 AND changes STREQUAL "")
        set(is_dirty false)
      endif()
    endif()
  endif()
endif()
configure_file(${SOURCE_DIR}/harness/build_info.cpp.in ${OUTPUT} @ONLY)
