/* Attributes, methods and globals are found again where they were found before.

   Where mypyc does not know a class, compiled code asks Python for attributes and methods by their
   names, and for a module's globals, too: a hundred instructions each, a hundred times a message.
   Python's own interpreter remembers where it has found what, for as long as the type or dict that
   it was found in does not change: both have a version for that, of which there is no second. So
   does this, in tables by version and name. They own no more than the names: what they lead to is
   there as long as the version is.

   Other versions of Python keep objects in another way, and do without. */

#define SHORTCUTS_C
#define Py_BUILD_CORE
#include <Python.h>
#include "internal/pycore_dict.h"
#include "internal/pycore_moduleobject.h"
#include "internal/pycore_object.h"
#undef Py_BUILD_CORE
#include "shortcuts.h"

#if PY_VERSION_HEX < 0x030c0000

#define PLACES 1024

/* How something was found. */
enum {
    NOWHERE,
    VALUE, /* in a dict, or in the type */
    ABSENT, /* not in a dict */
    MEMBER,
    GETTER,
    INSTANCE,
    METHOD,
    METHOD_NO_ARGUMENTS,
    METHOD_ONE,
    METHOD_FAST,
    METHOD_FAST_NAMES
};

typedef struct {
    PyObject *name;
    uint64_t version; /* of the type, or of the dict */
    union {
        PyObject *value;
        Py_ssize_t offset;
        PyGetSetDef *getter;
        PyCFunction function;
    } found;
    int32_t dict_offset; /* where an instance may have a dict; 0: it has none, -1: before it */
    uint16_t kind;
    uint16_t keys; /* how many names the type knows that instances without a dict have */
} Place;

static Place methods[PLACES];
static Place attributes[PLACES];
static Place items[PLACES];

static inline Place *place(Place *places, uint64_t version, PyObject *name)
{
    return &places[(version * 31 + ((uintptr_t)name >> 4)) % PLACES];
}

/* Puts what was seen in its place, which owns its name: another name must not come to lie there. */
static void keep(Place *at, Place seen)
{
    PyObject *before = at->name;
    *at = seen;
    Py_INCREF(seen.name);
    Py_XDECREF(before);
}

static inline int fits(const Place *seen, uint64_t version, PyObject *name)
{
    return likely(seen->version == version && seen->name == name);
}

/* Returns what the dict has for the name, borrowed; NULL without an error if it has nothing. */
static PyObject *item(PyObject *dict, PyObject *name)
{
    uint64_t version = ((PyDictObject *)dict)->ma_version_tag;
    Place *seen = place(items, version, name);
    if (fits(seen, version, name))
        return seen->found.value;
    PyObject *value = PyDict_GetItemWithError(dict, name);
    if (value == NULL && PyErr_Occurred())
        PyErr_Clear();
    else if (((PyDictObject *)dict)->ma_version_tag == version)
        keep(seen, (Place){name, version, {value}, .kind = value == NULL ? ABSENT : VALUE});
    return value;
}

PyObject *short_global(PyObject *globals, PyObject *name)
{
    if (likely(PyDict_CheckExact(globals))) {
        PyObject *value = item(globals, name);
        if (likely(value != NULL))
            return Py_NewRef(value);
    }
    return CPyDict_GetItem(globals, name);
}

static inline PyObject *dict_of(PyObject *object, const Place *seen)
{
    if (seen->dict_offset > 0)
        return *(PyObject **)((char *)object + seen->dict_offset);
    return *_PyObject_ManagedDictPointer(object);
}

/* Tells whether no attribute of the instance itself stands before that of its type. */
static inline int is_bare(PyObject *object, PyTypeObject *type, const Place *seen)
{
    if (seen->dict_offset == 0)
        return 1;
    PyObject *dict = dict_of(object, seen);
    if (dict != NULL)
        return PyDict_CheckExact(dict) && item(dict, seen->name) == NULL;
    return seen->dict_offset > 0
        || ((PyHeapTypeObject *)type)->ht_cached_keys->dk_nentries == seen->keys;
}

static Py_ssize_t index_of(PyDictKeysObject *keys, PyObject *name)
{
    if (keys->dk_kind == DICT_KEYS_GENERAL)
        return -2;
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++)
        if (DK_UNICODE_ENTRIES(keys)[i].me_key == name)
            return i;
    return -1;
}

/* Notes where instances of the type have attributes of their own. Returns whether that is known. */
static int see_instances(Place *seen, PyTypeObject *type)
{
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
        if (keys == NULL || index_of(keys, seen->name) != -1)
            return 0;
        seen->dict_offset = -1;
        seen->keys = (uint16_t)keys->dk_nentries;
        return 1;
    }
    seen->dict_offset = (int32_t)type->tp_dictoffset;
    return type->tp_dictoffset >= 0;
}

/* Tells whether a descriptor is of this type or a base. Else it fails for instances of the type. */
static int is_of(PyObject *descriptor, PyTypeObject *type)
{
    return PyType_IsSubtype(type, PyDescr_TYPE(descriptor));
}

static CPy_NOINLINE void see_method(PyTypeObject *type, PyObject *name)
{
    if (type->tp_getattro != PyObject_GenericGetAttr || !PyUnicode_CHECK_INTERNED(name))
        return;
    PyObject *found = _PyType_Lookup(type, name);
    if (found == NULL || !PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG))
        return;
    Place seen = {name, type->tp_version_tag};
    if (!see_instances(&seen, type))
        return;
    if (Py_IS_TYPE(found, &PyMethodDescr_Type) && is_of(found, type)) {
        PyMethodDef *method = ((PyMethodDescrObject *)found)->d_method;
        seen.found.function = method->ml_meth;
        switch (method->ml_flags & ~METH_COEXIST) {
        case METH_NOARGS:
            seen.kind = METHOD_NO_ARGUMENTS;
            break;
        case METH_O:
            seen.kind = METHOD_ONE;
            break;
        case METH_FASTCALL:
            seen.kind = METHOD_FAST;
            break;
        case METH_FASTCALL | METH_KEYWORDS:
            seen.kind = METHOD_FAST_NAMES;
            break;
        default:
            break;
        }
    }
    if (seen.kind == NOWHERE) {
        if (!PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR))
            return;
        seen.kind = METHOD;
        seen.found.value = found;
    }
    keep(place(methods, seen.version, name), seen);
}

PyObject *short_call_method(PyObject *name, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject *self = args[0];
    PyTypeObject *type = Py_TYPE(self);
    Place *seen = place(methods, type->tp_version_tag, name);
    if (fits(seen, type->tp_version_tag, name) && is_bare(self, type, seen)) {
        Py_ssize_t count = PyVectorcall_NARGS(nargsf) - 1;
        switch (seen->kind) {
        case METHOD_FAST_NAMES:
            return ((_PyCFunctionFastWithKeywords)(void (*)(void))seen->found.function)(
                self, args + 1, count, names);
        case METHOD_FAST:
            if (names == NULL)
                return ((_PyCFunctionFast)(void (*)(void))seen->found.function)(
                    self, args + 1, count);
            break;
        case METHOD_ONE:
            if (count == 1 && names == NULL)
                return seen->found.function(self, args[1]);
            break;
        case METHOD_NO_ARGUMENTS:
            if (count == 0 && names == NULL)
                return seen->found.function(self, NULL);
            break;
        case METHOD: {
            PyObject *function = Py_NewRef(seen->found.value);
            PyObject *result = PyObject_Vectorcall(
                function, args, nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET, names);
            Py_DECREF(function);
            return result;
        }
        default:
            break;
        }
    }
    else if (PyModule_CheckExact(self)) {
        PyObject *function = short_attribute(self, name);
        if (function == NULL)
            return NULL;
        PyObject *result = PyObject_Vectorcall(
            function, args + 1, (nargsf - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
        Py_DECREF(function);
        return result;
    }
    else
        see_method(type, name);
    return PyObject_VectorcallMethod(name, args, nargsf, names);
}

static CPy_NOINLINE void see_attribute(PyTypeObject *type, PyObject *name)
{
    if (type->tp_getattro != PyObject_GenericGetAttr || !PyUnicode_CHECK_INTERNED(name))
        return;
    PyObject *found = _PyType_Lookup(type, name);
    if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG))
        return;
    Place seen = {name, type->tp_version_tag};
    if (found == NULL) {
        seen.kind = INSTANCE;
        seen.found.offset = -1;
        if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
            PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
            if (keys != NULL)
                seen.found.offset = index_of(keys, name);
            seen.dict_offset = -1;
        }
        else if (type->tp_dictoffset > 0)
            seen.dict_offset = (int32_t)type->tp_dictoffset;
        else
            return;
    }
    else if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        if (member->type != T_OBJECT_EX || member->flags & READ_RESTRICTED || !is_of(found, type))
            return;
        seen.kind = MEMBER;
        seen.found.offset = member->offset;
    }
    else if (Py_IS_TYPE(found, &PyGetSetDescr_Type)) {
        seen.found.getter = ((PyGetSetDescrObject *)found)->d_getset;
        if (seen.found.getter->get == NULL || !is_of(found, type))
            return;
        seen.kind = GETTER;
    }
    else if (Py_TYPE(found)->tp_descr_get == NULL) {
        if (!see_instances(&seen, type))
            return;
        seen.kind = VALUE;
        seen.found.value = found;
    }
    else
        return;
    keep(place(attributes, seen.version, name), seen);
}

/* Returns an attribute of a module; NULL without an error if it has to be asked. */
static PyObject *module_attribute(PyObject *module, PyObject *name)
{
    PyObject *found = item(((PyModuleObject *)module)->md_dict, name);
    return found != NULL && _PyType_Lookup(&PyModule_Type, name) == NULL ? found : NULL;
}

PyObject *short_attribute(PyObject *object, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(object);
    Place *seen = place(attributes, type->tp_version_tag, name);
    if (fits(seen, type->tp_version_tag, name)) {
        PyObject *value = NULL;
        switch (seen->kind) {
        case MEMBER:
            value = *(PyObject **)((char *)object + seen->found.offset);
            break;
        case GETTER:
            return seen->found.getter->get(object, seen->found.getter->closure);
        case INSTANCE: {
            PyDictValues *values = seen->dict_offset < 0 ? *_PyObject_ValuesPointer(object) : NULL;
            PyObject *dict;
            if (values != NULL)
                value = seen->found.offset < 0 ? NULL : values->values[seen->found.offset];
            else if ((dict = dict_of(object, seen)) != NULL && PyDict_CheckExact(dict))
                value = item(dict, name);
            break;
        }
        case VALUE:
            if (is_bare(object, type, seen))
                value = seen->found.value;
            break;
        default:
            break;
        }
        if (likely(value != NULL))
            return Py_NewRef(value);
    }
    else if (PyModule_CheckExact(object)) {
        PyObject *value = module_attribute(object, name);
        if (likely(value != NULL))
            return Py_NewRef(value);
    }
    else
        see_attribute(type, name);
    return PyObject_GetAttr(object, name);
}

#define KEPT 8

/* An empty list keeps the room for a few: most lists that a message passes hold one item at a time,
   and would ask for memory, and give it back, each time. */
static inline int keeps_room(PyListObject *list)
{
    return list->allocated <= KEPT || Py_SIZE(list) > list->allocated / 2;
}

PyObject *short_pop_last(PyObject *object)
{
    PyListObject *list = (PyListObject *)object;
    Py_ssize_t last = Py_SIZE(list) - 1;
    if (last < 0 || !keeps_room(list))
        return CPyList_PopLast(object);
    Py_SET_SIZE(list, last);
    return list->ob_item[last];
}

PyObject *short_pop(PyObject *object, CPyTagged index)
{
    PyListObject *list = (PyListObject *)object;
    Py_ssize_t last = Py_SIZE(list) - 1;
    Py_ssize_t at = CPyTagged_ShortAsSsize_t(index);
    if (!CPyTagged_CheckShort(index) || at < 0 || at > last || !keeps_room(list))
        return CPyList_Pop(object, index);
    PyObject *item = list->ob_item[at];
    memmove(&list->ob_item[at], &list->ob_item[at + 1], (last - at) * sizeof(PyObject *));
    Py_SET_SIZE(list, last);
    return item;
}

#endif
