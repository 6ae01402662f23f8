/* What compiled code does in place of what mypyc would have it do; shortcuts.c says why. Each part of
   the library includes this before the C code of mypyc. */

#ifndef SHORTCUTS_H
#define SHORTCUTS_H

#include <Python.h>
#include <frameobject.h>
#include <structmember.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Functions that only errors need. The compiler puts what leads to them, which is a third of a
   function, away from what does not. */
#define COLD __attribute__((cold))
COLD void CPy_AddTraceback(const char *, const char *, int, PyObject *);
COLD void CPy_TypeError(const char *, PyObject *);
COLD void CPy_TypeErrorTraceback(
    const char *, const char *, int, PyObject *, const char *, PyObject *);
COLD void CPy_AttributeError(
    const char *, const char *, const char *, const char *, int, PyObject *);
COLD static void CPy_DecRef(PyObject *);
COLD static void CPy_XDecRef(void *);
COLD void CPyError_OutOfMemory(void);
COLD void CPy_Raise(PyObject *);
COLD void PyErr_SetString(PyObject *, const char *);
COLD void PyErr_SetNone(PyObject *);

/* What the library has in itself is reached without a detour, also from another part of it. */
#pragma GCC visibility push(hidden)
#include <CPy.h>

#if PY_VERSION_HEX < 0x030c0000

PyObject *short_call_method(PyObject *name, PyObject *const *args, size_t nargsf, PyObject *names);
PyObject *short_attribute(PyObject *object, PyObject *name);
PyObject *short_global(PyObject *globals, PyObject *name);
PyObject *short_pop_last(PyObject *list);
PyObject *short_pop(PyObject *list, CPyTagged index);

static inline int short_append(PyObject *object, PyObject *item)
{
    PyListObject *list = (PyListObject *)object;
    Py_ssize_t size = Py_SIZE(list);
    if (unlikely(size >= list->allocated))
        return PyList_Append(object, item);
    Py_INCREF(item);
    list->ob_item[size] = item;
    Py_SET_SIZE(list, size + 1);
    return 0;
}

static inline int short_is_true(PyObject *object)
{
    if (object == Py_True)
        return 1;
    if (object == Py_False || object == Py_None)
        return 0;
    if (PyDict_CheckExact(object))
        return PyDict_GET_SIZE(object) != 0;
    return PyObject_IsTrue(object);
}

#ifndef SHORTCUTS_C
#undef CPyObject_GetAttr
#define CPyObject_GetAttr short_attribute
#define PyObject_VectorcallMethod short_call_method
#define CPyList_PopLast short_pop_last
#define CPyList_Pop short_pop
#define PyList_Append short_append
#define PyObject_IsTrue short_is_true
#endif

#else /* a Python whose types and dicts are made otherwise */

#define short_global CPyDict_GetItem

#endif

#pragma GCC visibility pop
#endif
